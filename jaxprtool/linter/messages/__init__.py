"""The codes of messages, with a page for each."""

from __future__ import annotations

from jaxprtool.linter.messages.placing import PLACING
from jaxprtool.linter.messages.reading import READING
from jaxprtool.linter.messages.typing import TYPING
from jaxprtool.linter.messages.usage import USAGE
from jaxprtool.linter.registry import Page

__all__ = ["MESSAGES"]

MESSAGES: list[Page] = [*READING, *TYPING, *PLACING, *USAGE]
