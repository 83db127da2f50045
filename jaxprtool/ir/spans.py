"""Source texts and positions in them."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from jaxprtool.ir.origin import Origin

__all__ = ["Source", "Span"]


class Source:
    """A text with a name: a file, or `<stdin>`."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, text: str, name: str = "<string>"):
        self.text, self.name = text, name
        self._starts: list[int] | None = None

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts, pos = [0], self.text.find("\n")
            while pos >= 0:
                starts.append(pos + 1)
                pos = self.text.find("\n", pos + 1)
            self._starts = starts
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of a character offset."""
        starts = self._line_starts()
        row = bisect_right(starts, offset) - 1
        return row + 1, offset - starts[row] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its line break."""
        starts = self._line_starts()
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end]


class Span(NamedTuple):
    """A stretch of a source: character offsets `start` (included) to `end` (excluded).

    `origin` is that of the equation which stands there, where the text says it.
    """

    source: Source
    start: int
    end: int
    origin: Origin | None = None

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"
