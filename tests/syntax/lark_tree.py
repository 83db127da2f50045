"""Lark's trees of the language, and the comments in them."""

from __future__ import annotations

import functools
import re
from typing import Any

import lark
from lark import Token, Tree

from jaxprtool.syntax.oracle import language_parser, plain_names

__all__ = ["Comments", "Meaningless", "Rejected", "tokens", "tree_of", "trees"]


class Rejected(Exception):
    """The text is outside of the grammar; `offset` is where what does not fit begins."""

    def __init__(self, offset: int, found: str = ""):
        super().__init__(f"at {offset}: {found}")
        self.offset = offset


class Meaningless(Exception):
    """The text is in the grammar, and what it says cannot be: a name that is not bound, a number that does not fit."""


@functools.cache
def parser() -> Any:
    return language_parser()


def tree_of(text: str, start: str = "start") -> Tree:
    """Lark's tree; raises `Rejected`."""
    plain = plain_names(text) if start == "start" else text
    try:
        return _spelled_as(text, parser().parse(plain, start=start), plain)
    except lark.exceptions.UnexpectedCharacters as e:
        raise Rejected(e.pos_in_stream, text[e.pos_in_stream :][:20]) from None
    except lark.exceptions.UnexpectedToken as e:
        at = e.token.start_pos
        end = len(text.rstrip())
        at = end if e.token.type == "$END" or at is None else at
        raise Rejected(at, text[at:][:20]) from None


def _spelled_as(text: str, tree: Tree, plain: str) -> Tree:
    """The tree of a text with plain names, with the names of the text itself."""
    if plain != text:
        for part in tree.iter_subtrees():
            part.children = [
                c.update(value=text[c.start_pos : c.end_pos]) if isinstance(c, Token) else c
                for c in part.children
            ]
    return tree


def trees(tree: Tree, *names: str) -> list[Tree]:
    """The children of these rules."""
    return [c for c in tree.children if isinstance(c, Tree) and (not names or c.data in names)]


def tokens(tree: Tree, *kinds: str) -> list[Token]:
    """The children that are tokens of these kinds."""
    return [c for c in tree.children if isinstance(c, Token) and c.type in kinds]


class Comments:
    """Comments of a text: those above what follows them, by its offset, and those after an equation, by where it starts."""

    def __init__(self, tree: Tree, end: int):
        self.above: dict[int, list[str]] = {}
        self.after: dict[int, str] = {}
        self.lines: list[str] = []
        self.equation, self.trails = 0, False
        self.visit(tree, False)
        if self.lines:
            self.above[end] = self.lines

    def visit(self, tree: Tree, inside: bool) -> None:
        """In the order of the text; `inside` is whether among params."""
        equation = tree.data in ("equation", "over_lines", "autodidax_equation", "lone_equation")
        start = -1
        for child in tree.children:
            if isinstance(child, Tree):
                if equation and start < 0:
                    start = self.equation = self.place(child.meta.start_pos)
                params = child.data in ("params", "text_params", "param_list", "param", "jaxprs")
                self.visit(child, params or (inside and child.data == "text_param_list"))
                if equation:
                    self.equation, self.trails = start, True
                self.trails = self.trails and child.data not in ("jaxpr", "autodidax_jaxpr")
            elif child.type == "COMMENT":
                self.comment(str(child), inside)
            elif child.type == "PASTED":
                self.lines += [] if child[0] in "`~" else [f"# {child.rstrip()}"]
            elif child.type == "NEWLINE" or child.type == "LINE_END":
                self.trails = False
            elif child.type not in ("SEPARATOR", "NEWLINE_OVER"):
                if equation and start < 0:
                    start = self.equation = child.start_pos
                self.place(child.start_pos)
                self.trails = equation

    def place(self, start: int) -> int:
        """What stands at an offset gets the lines above it."""
        if self.lines:
            self.above[start], self.lines = self.lines, []
        return start

    def comment(self, text: str, inside: bool) -> None:
        text = text.rstrip()
        if re.fullmatch(r"# jaxprtool format \d{1,9}", text) and not inside:
            return
        if inside or self.trails:
            before = self.after.get(self.equation)
            self.after[self.equation] = f"{before} {text}" if before else text
        else:
            self.lines.append(text)
