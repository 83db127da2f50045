"""x."""

from __future__ import annotations

from jaxprtool.linter.registry import Page

__all__ = ["TYPING"]

TYPING: list[Page] = []
