"""How the pages of messages are written."""

from __future__ import annotations

from jaxprtool.linter.registry import Page

__all__ = ["table"]


def table(family: str, text: str, command: str = "") -> list[Page]:
    """Pages: in each line, with bars between, a code, a title, what to do, and why if there is more to say."""
    pages: list[Page] = []
    for line in text.strip().splitlines():
        code, title, mend, *why = line.split(" | ")
        pages.append(Page(code, family, title, "".join(why), mend, command=command))
    return pages
