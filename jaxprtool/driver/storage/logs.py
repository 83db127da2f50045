"""Find jaxprs in logs: in a text with other lines, and words before and after those of the jaxprs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jaxprtool.driver.storage.files import STDIN
from jaxprtool.driver.storage.foreign import text_help
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError, JaxprToolError, counted, fail
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.patterns import pattern

__all__ = ["Excerpt", "excerpts", "jaxprs_of_log"]

_ANSI = pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# What a program begins with: a jaxpr, or the first of the definitions before it.
_HEAD = pattern(r"(?:let (?!= )[^\n=]{1,200}? = )?\{\s*lambda\b")
_BRACES = pattern(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[{}]")
# After the brace that ends a definition. One on a single line may have the place of its equation beside it.
_GOES_ON = pattern(r"\s*in(?:\s*(?:#.*)?$|\s+(?=\{\s*lambda\b|let ))")
# What this tool prints below a program: values of constants, trees of arguments.
_SECTION = pattern(r"\s*(?:where|args)\b(?=[ (])")
_STAMP = pattern(r" *\d+|.")  # numbers of lines, times and processes change from line to line
_LONGEST_STAMP = 100  # characters and numbers before a line
_HELP = "a jaxpr begins with `{ lambda`: log str(jax.make_jaxpr(f)(*args)), or print it"


class Excerpt(NamedTuple):
    """A piece of a text that looks like a program.

    Attributes:
      line: the number of its first line in the text, counted from 1.
      text: the piece, with blanks in the place of what precedes it on each line.
    """

    line: int
    text: str


def jaxprs_of_log(text: str, name: str = STDIN) -> tuple[str, list[Diagnostic]]:
    """The jaxprs of a log, as a file of programs.

    Args:
      text: the log: any text, with times, names of loggers or anything else before the lines of a jaxpr; colours.
      name: what to call it in messages.

    Returns:
      The text of the jaxprs: one, or several named `jaxpr1`, `jaxpr2`, ... in their order; and a warning for each that
      cannot be read, with its place in the log.

    Raises:
      JaxprParseError: there is no jaxpr in it, or none that can be read.
    """
    text = _ANSI.sub("", text)
    readable: list[str] = []
    unread: list[Diagnostic] = []
    for excerpt in excerpts(text):
        try:
            parse_file(excerpt.text, name, excerpt.line)
        except JaxprToolError as e:
            d = e.diagnostics[0]
            unread.append(replace(d, help=d.help or f"the jaxpr begins in line {excerpt.line}"))
        else:
            readable.append(excerpt.text.strip())
    if not readable and unread:
        raise JaxprParseError(unread)
    if not readable:
        _refuse(text, name)
    warnings = [
        replace(d, message=f"this jaxpr is left out: {d.message}", severity="warning")
        for d in unread
    ]
    if len(readable) == 1:
        return f"{readable[0]}\n", warnings
    named = [f"jaxpr{i} = {one}\n" for i, one in enumerate(readable, 1)]
    return "\n".join(named), warnings


def _refuse(text: str, name: str) -> None:
    """Raise JaxprParseError for a text in which no jaxpr begins."""
    what, help = text_help(text, name)
    lines = counted(len(text.splitlines()), "line")
    message = f"{name} is {what}, and holds no jaxpr" if what else f"no jaxpr in {lines} of text"
    fail(
        JaxprParseError,
        message,
        "no-jaxpr",
        span=Span(Source(text, name), 0, 0),
        help=help or _HELP,
    )


def excerpts(text: str) -> Iterator[Excerpt]:
    """The pieces of a text that look like programs, in their order."""
    lines = text.split("\n")
    row, column = 0, 0
    while row < len(lines):
        m = _HEAD.search(lines[row], column)
        if m is None:
            row, column = row + 1, 0
            continue
        first = row + 1
        piece = _Piece(lines, row, m.start())
        row, column = piece.end
        yield Excerpt(first, piece.text)


class _Piece:
    """A piece from a position of a text up to the brace that ends it.

    One that is cut off ends before the next program, or with the text.

    Attributes:
      text: the piece.
      end: row and column after it.
    """

    def __init__(self, lines: Sequence[str], row: int, column: int):
        before = lines[row][:column]
        self.stamp, self.depth = _stamp(before), 0
        self.least = -1 if before.strip() else column
        bodies = [(column, lines[row][column:])]
        at, rest = row, bodies[0][1]
        while True:
            stop = self._stop(rest)
            if stop >= 0:
                blank, body = bodies[-1]
                bodies[-1] = blank, body[:stop]
                after = self._sections(lines, at + 1) if not body[stop:].strip() else []
                bodies += after
                self.end = (at + 1 + len(after), 0) if after else (at, blank + stop)
                break
            at += 1
            if at == len(lines):
                self.end = (at, 0)
                break
            blank, rest = self._without_stamp(lines[at])
            if self._begins_anew(blank, rest):
                self.end = (at, 0)
                break
            bodies.append((blank, rest))
        width = max((blank for blank, _ in bodies[1:]), default=0)
        first = " " * column + bodies[0][1]
        self.text = "\n".join([first, *[" " * width + body for _, body in bodies[1:]]])

    def _stop(self, body: str) -> int:
        """Return the column of a line after which the program is complete; -1 where it continues."""
        for m in _BRACES.finditer(body):
            if m[0] == "{":
                self.depth += 1
            elif m[0] == "}":
                self.depth -= 1
                if self.depth == 0 and not _GOES_ON.match(body, m.end()):
                    return m.end()
        return -1

    def _without_stamp(self, line: str) -> tuple[int, str]:
        m = self.stamp.match(line)
        width = m.end() if m else 0
        return width, line[width:]

    def _begins_anew(self, blank: int, body: str) -> bool:
        """Whether another program begins in a line before this one is complete: inner lines are indented."""
        m = _HEAD.search(body) if self.depth > 0 else None
        if m is None:
            return False
        return not body[0].isspace() or blank + m.start() <= self.least

    def _sections(self, lines: Sequence[str], row: int) -> list[tuple[int, str]]:
        """Return the lines from a row on that belong to the program in this tool's own notation."""
        found: list[tuple[int, str]] = []
        for line in lines[row:]:
            blank, body = self._without_stamp(line)
            if not (_SECTION.match(body) or (found and body[:1].isspace() and body.strip())):
                break
            found.append((blank, body))
        return found


def _stamp(before: str) -> re.Pattern[str]:
    """Return a pattern for what precedes the first line on its line, up to the values of numbers."""
    pattern = ""
    for part in reversed(_STAMP.findall(before)[:_LONGEST_STAMP]):
        own = r" *\d+" if part.strip().isdigit() else re.escape(part)
        pattern = f"(?:{own}{pattern})?"
    return re.compile(pattern)
