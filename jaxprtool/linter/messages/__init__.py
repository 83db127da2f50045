"""The codes of messages, with a page for each."""

from __future__ import annotations

from jaxprtool.linter.messages.checking import CHECKING
from jaxprtool.linter.messages.usage import USAGE
from jaxprtool.linter.registry import Page

__all__ = ["MESSAGES"]

MESSAGES: list[Page] = [*CHECKING, *USAGE]
