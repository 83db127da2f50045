"""The results of `explain`: the page of a code, with the messages that its example causes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.linter.examples import Side
from jaxprtool.linter.registry import Page

__all__ = ["Explained", "Listed"]

_WIDTH = 100


class Explained(Answer):
    """The page of a code.

    Attributes:
      page: the page.
      example: its example.
      says: the messages that its example causes.
    """

    def __init__(self, page: Page, says: Sequence[str]):
        self.page, self.says = page, says
        self.example = page.example

    def lines(self) -> list[str]:
        """Return the page as lines of text."""
        page = self.page
        found = [_heading(page), "", *textwrap.wrap(f"{page.title}.", _WIDTH)]
        if page.why:
            found += ["", *textwrap.wrap(page.why, _WIDTH)]
        bad, good = self.example
        if bad.command or bad.text:
            found += ["", *_shown("Example", bad)]
        if self.says:
            found += ["", *(f"    {line}" for said in self.says for line in said.splitlines())]
        found += ["", *textwrap.wrap(f"To mend it, {page.mend}.", _WIDTH)]
        if good.command and (good.command != bad.command or not good.text):
            found += ["", *_shown("Mended", good)]
        elif good.text:
            found += ["", *_indented(good.text)]
        if page.fix:
            found += [
                "",
                f"`jaxprtool lint --fix` does so, by the passes {page.fix.replace(',', ', ')}.",
            ]
        return found

    def json(self) -> dict[str, Any]:
        """Return the page as JSON, with the keys that `jaxprtool explain --help` names."""
        page = self.page
        return {
            "code": page.code,
            "family": page.family,
            "verb": (self.example.bad.command or page.command).partition(" ")[0] or None,
            "title": page.title,
            "why": page.why,
            "mend": page.mend,
            "example": self.example.bad.text or None,
            "command": self.example.bad.command or None,
            "says": [*self.says],
            "mended": self.example.good.text or None,
            "mended_command": self.example.good.command or None,
            "fix": page.fix or None,
            "default": page.default,
        }


class Listed(Answer):
    """Several pages, or the titles of all pages."""

    def __init__(self, pages: Sequence[Explained], titles: bool):
        self.pages, self.titles = pages, titles

    def lines(self) -> list[str]:
        """Return the pages one after the other, or one line for each code, by family."""
        if not self.titles:
            parts = [[*p.lines(), ""] for p in self.pages]
            return [line for part in parts for line in part][:-1]
        found: list[str] = []
        family = ""
        width = max((len(p.page.code) for p in self.pages), default=0)
        for p in self.pages:
            if p.page.family != family:
                family = p.page.family
                found += [*([""] if found else []), f"{family}:"]
            off = "" if p.page.default else " (not applied by default)"
            found.append(f"  {p.page.code:{width}}  {p.page.title}{off}")
        return found

    def json(self) -> dict[str, Any]:
        """Return the JSON document that `jaxprtool explain --help` describes."""
        return {"schema": 1, "codes": [p.json() for p in self.pages]}


def _heading(page: Page) -> str:
    rule = "a rule of lint, " if page.command.startswith("lint") else ""
    off = "" if page.default else ", not applied by default"
    return f"{page.code} ({rule}{page.family}{off})"


def _shown(what: str, side: Side) -> list[str]:
    called = f"jaxprtool {side.command.removesuffix(' -')}" if side.command else "Python"
    if not side.text:
        return [f"{what}: {called}"]
    return [f"{what} ({called}):", "", *_indented(side.text)]


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.strip("\n").splitlines()]
