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

    `numbers` gives for each line of the text its line number in the file, where some lines were
    left out; None for the same numbers. Lines count from 1.
    """

    __slots__ = ("__weakref__", "_numbers", "_starts", "name", "text")

    def __init__(self, text: str, name: str = "<string>", numbers: Sequence[int] | None = None):
        self.text, self.name, self._numbers = text, name, numbers
        self._starts: list[int] | None = None

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            lengths = map(len, self.text.split("\n"))
            self._starts = [0, *accumulate(n + 1 for n in lengths)]
            self._starts.pop()  # no line starts behind the last line break
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character offset, both counted from 1."""
        starts = self._line_starts()
        row = bisect_right(starts, offset)
        return self.number(row), offset - starts[row - 1] + 1

    def number(self, row: int) -> int:
        """Return the line number in the file of a line of the text, both counted from 1."""
        return row if self._numbers is None else self._numbers[row - 1]

    def line(self, number: int) -> str:
        """Return a line of the file (counted from 1), without its line break."""
        starts = self._line_starts()
        row = number if self._numbers is None else bisect_right(self._numbers, number)
        end = starts[row] - 1 if row < len(starts) else len(self.text)
        return self.text[starts[row - 1] : end]


class Span(NamedTuple):
    """A range of a source: character offsets `start` (included) to `end` (excluded).

    `origin` is the origin of the equation at this position, where the text states it.
    """

    source: Source
    start: int
    end: int
    origin: Origin | None = None

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


class Place(Protocol):
    """The place of a binder in a source. Its span is searched for only when somebody asks."""

    def find(self, name: str) -> Span:
        """Return the span of the binder, which has this name."""
        ...


# A span of a tuple of its four fields. It takes half the time of a call of the class.
new_span: Callable[[tuple[Source, int, int, Origin | None]], Span] = partial(tuple.__new__, Span)  # pyright: ignore[reportUnknownMemberType]
