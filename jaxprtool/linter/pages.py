"""The pages of all codes: those of lint's rules, and those of the messages of other verbs."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.synonyms import close_names
from jaxprtool.linter.messages import MESSAGES
from jaxprtool.linter.registry import Page, all_rules

__all__ = ["all_pages", "find_page"]


def all_pages() -> list[Page]:
    """Return all pages: of the rules of lint, and of the messages of `check` and other verbs."""
    return [*(rule.page for rule in all_rules()), *MESSAGES]


def find_page(code: str) -> Page:
    """Return the page of a code, which may be in brackets. Raises UsageError if there is no such
    code.
    """
    name = code.strip().removeprefix("[").removesuffix("]")
    pages = {page.code: page for page in all_pages()}
    if name not in pages:
        near = close_names(name, pages)
        help = f"did you mean {near[0]}?" if near else "`jaxprtool explain` lists all codes"
        fail(UsageError, f"there is no code {code}", "no-such-code", help=help)
    return pages[name]
