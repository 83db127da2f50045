"""Source texts and positions in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Protocol

from jaxprtool.ir.origin import Origin

__all__ = ["Place", "Source", "Span", "new_span"]


class Source:
    """A text with a name: a file, or `<stdin>`.

    `numbers` says which line of the file each line of the text is, where some were left out; both count from 1.
    """

    __slots__ = ("__weakref__", "_numbers", "_starts", "name", "text")

    def __init__(self, text: str, name: str = "<string>", numbers: Sequence[int] | None = None):
        self.text, self.name, self._numbers = text, name, numbers
        self._starts: list[int] | None = None

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            lengths = map(len, self.text.split("\n"))
            self._starts = [0, *accumulate(n + 1 for n in lengths)]
            self._starts.pop()  # there is no line behind the last one
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of a character offset."""
        starts = self._line_starts()
        row = bisect_right(starts, offset)
        return self.number(row), offset - starts[row - 1] + 1

    def number(self, row: int) -> int:
        """The line of the file that a line of the text is, both counted from 1."""
        return row if self._numbers is None else self._numbers[row - 1]

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its line break."""
        starts = self._line_starts()
        row = number if self._numbers is None else bisect_right(self._numbers, number)
        end = starts[row] - 1 if row < len(starts) else len(self.text)
        return self.text[starts[row - 1] : end]


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


class Place(Protocol):
    """Where a binder stands in a source, of which the span is looked for when somebody asks."""

    def find(self, name: str) -> Span:
        """The span of the binder, which has this name."""
        ...


# A span of a tuple of its four fields. It takes half the time of a call of the class.
new_span: Callable[[tuple[Source, int, int, Origin | None]], Span] = partial(tuple.__new__, Span)  # pyright: ignore[reportUnknownMemberType]
