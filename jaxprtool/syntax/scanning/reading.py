"""The state that the parts of the scanner share: the position in the text, the tokens found, and
what is still open.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, TypeAlias

from jaxprtool.ir.spans import Source
from jaxprtool.syntax.patterns import BLANK, GAP, pattern
from jaxprtool.syntax.releases.spellings import Release
from jaxprtool.syntax.scanning.blocks import Blocks
from jaxprtool.syntax.scanning.comments import CommentScanner
from jaxprtool.syntax.scanning.values import ValueScanner
from jaxprtool.syntax.tokens import DEFINED, Token

__all__ = ["DEFINED_NAME", "AfterLine", "Frame", "Reading", "State", "nowhere", "odd_names"]

# What is read next: something of a module, a header, equations, params, jaxprs in parentheses, a jaxpr below an equation,
# what follows a jaxpr; or nothing.
State: TypeAlias = Literal[
    "module", "header", "equations", "params", "jaxprs", "jaxpr_below", "after_jaxpr", "end"
]
# Matches, at an offset of a text, up to the end of a line that continues an equation.
AfterLine: TypeAlias = Callable[[str, int], "re.Match[str] | None"]

# The lookbehinds come after `let `, since the search for a fixed beginning is fast.
DEFINED_NAME = pattern(
    r"let (?<![\w.]let )(?<!\. let )" + DEFINED.removeprefix("let ") + r"\{ lambda\b"
)
_TAME = pattern(r"[^\s\[\](){},;=]+")


def nowhere(text: str, pos: int) -> None:
    """The `AfterLine` of an equation that does not begin a line: nothing continues it."""
    del text, pos


class Frame:
    """An open construct: a jaxpr's equations, a list of params, a tuple of jaxprs, a definition.

    Attributes:
      kind: which of these it is.
      start: the offset where it begins.
      column: the column of the keys of params in block layout; -1 in flat layout.
      primitive: the primitive of the equation that params belong to.
      equation: the offset where that equation starts.
      after_line: matches a line that continues that equation.
      first: the number of the first token inside.
    """

    __slots__ = ("after_line", "column", "equation", "first", "kind", "primitive", "start")

    def __init__(self, kind: str, start: int):
        self.kind, self.start = kind, start
        self.column, self.primitive, self.equation, self.first = -1, "", 0, 0
        self.after_line: AfterLine = nowhere


class Reading:
    """A text under scan.

    Attributes:
      source: the source.
      text: its text.
      pos: the offset of what is read next.
      tokens: the tokens found; at the end the last one is `$END`, or `JUNK` where scanning could
        not go on.
      open: the open frames, outermost first.
      comments: comments by the start of the equation they belong to.
      values: finds the ends of values.
      names: the names of the shared definitions anywhere in the text.
      odd_name: matches those names that contain blanks or brackets; None where there are none.
      blocks: params whose text may be repeated.
      equation_start: the start of the last equation whose operands or `[` were read.
      one: whether to stop after one program, whatever follows.
      signature: whether the text is `(jaxpr, shapes)`.
      autodidax: whether the text is Autodidax's.
      classic: whether the text is of a release to 0.2.21, which break the line after the dot of a
        header.
      below: whether jaxprs stand below the equations that hold them.
      told: the bounds on the release that equations imply.
    """

    def __init__(self, source: Source):
        self.source, self.text, self.pos = source, source.text, 0
        self.tokens: list[Token] = []
        self.open: list[Frame] = []
        self.comments = CommentScanner(self.text)
        self.values = ValueScanner(self.text)
        self.names: set[str] = set()
        if " = { lambda" in self.text:
            self.names.update(m[1] for m in DEFINED_NAME.finditer(self.text))
        self.odd_name = odd_names(self.names)
        self.blocks = Blocks(self.text, self.names, self.odd_name is not None)
        self.equation_start = 0
        self.one = self.signature = self.autodidax = False
        self.classic = self.below = False
        self.told: set[tuple[str, Release]] = set()

    def inner(self, at: int) -> Reading:
        """Return a scan of one program that begins at `at`, inside a value of this text."""
        inner = copy.copy(self)
        inner.pos, inner.one, inner.tokens, inner.open = at, True, [], []
        inner.signature = inner.autodidax = False
        return inner

    @cached_property
    def dedented(self) -> str:
        """The text without the indentation of its lines, for searches of the whole text.

        Most of a deeply nested text is indentation, and a search of blanks is slow.
        """
        return "\n".join([line.lstrip() for line in self.text.split("\n")])

    def add(self, kind: str, match: re.Match[str], value: Any = None) -> None:
        """Add a token from the current position to the end of a match, and move there."""
        self.tokens.append((kind, value, self.pos, match.end()))
        self.pos = match.end()

    def after_blanks(self) -> int:
        """Return the offset after blanks at the current position."""
        return BLANK.match(self.text, self.pos).end()

    def give_up(self) -> State:
        """End the scan where nothing fits: at the end of the text, or at junk."""
        self.comments.skip(self)
        pos = GAP.match(self.text, self.pos).end()
        rest = self.text[pos : pos + 200]
        cut = bool(self.open) and len(rest) < 200 and "\n" not in rest.strip() and "}" not in rest
        if cut or not rest:
            end = len(self.text.rstrip())
            self.tokens.append(("$END", None, end, end))
        else:
            self.tokens.append(("JUNK", None, pos, pos))
        return "end"


def odd_names(names: set[str]) -> re.Pattern[str] | None:
    """Return a pattern for those names that contain blanks or brackets, as the value of a param;
    None where there are none.
    """
    odd = sorted((re.escape(n) for n in names if not _TAME.fullmatch(n)), reverse=True)
    return re.compile(rf"(?:{'|'.join(odd)})(?=[\s\])])") if odd else None
