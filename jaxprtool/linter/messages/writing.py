"""How the pages of messages are written."""

from __future__ import annotations

from jaxprtool.linter.registry import Page

__all__ = ["program", "read", "table", "typed"]


def program(*equations: str, args: str = "a:f32[3]", outs: str = "b,") -> str:
    """The text of a program of these equations."""
    body = "\n".join(f"    {line}" for eqn in equations for line in eqn.split("\n"))
    return f"{{ lambda ; {args}. let\n{body}\n  in ({outs}) }}"


def read(code: str, title: str, mend: str, bad: str, good: str, why: str = "") -> Page:
    """The page of a message on a text that is no program."""
    return Page(code, "check: the text", title, why, mend, bad, good, "check")


def typed(code: str, title: str, mend: str, bad: str, good: str, why: str = "") -> Page:
    """The page of a message on a program that is ill-typed."""
    return Page(code, "check: the types", title, why, mend, bad, good, "check")


def table(family: str, text: str) -> list[Page]:
    """Pages without an example: in each line a code, a title and what to do, with bars between."""
    rows = [line.split(" | ") for line in text.strip().splitlines()]
    return [Page(code, family, title, "", mend, command="") for code, title, mend in rows]
