"""Reduce a text that is no program, line by line and token by token, as long as a test finds it interesting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jaxprtool.syntax.cutting import (
    balanced_lines,
    braced,
    bracketed,
    lines_of,
    tokens_of,
    with_binders,
)

__all__ = ["TextSearch", "TextSize"]


class TextSize(NamedTuple):
    """How long a text is; texts are compared by these numbers in order."""

    lines: int
    tokens: int

    @classmethod
    def of(cls, text: str) -> TextSize:
        """The size of a text."""
        return cls(len(lines_of(text)), len(tokens_of(text)))

    def __str__(self) -> str:
        return f"{self.lines:,} line{'s' * (self.lines != 1)}, {self.tokens:,} token{'s' * (self.tokens != 1)}"


_LAST = 3  # lines at the end of a text that are removed one by one first
_WIDTH = 100  # columns of the line that all lines are joined into


class _TimeIsUp(Exception):
    pass


class TextSearch:
    """A search for a short text.

    Attributes:
      current: the shortest interesting text so far.
      tests: how many texts were tested.
      ended: why it ended: "done", "time" or "interrupted".
    """

    def __init__(
        self,
        text: str,
        test: Callable[[str], bool],
        deadline: float | None = None,
        on_smaller: Callable[[str, str], None] = lambda text, family: None,
    ):
        """Prepare the search.

        Args:
          text: a text that is interesting.
          test: whether a text is interesting.
          deadline: when to end, as `time.monotonic` gives it.
          on_smaller: called with each text that becomes the shortest, and the name of the edit that
            made it.
        """
        self.current, self.test, self.deadline = text, test, deadline
        self.on_smaller = on_smaller
        self.tests, self.ended = 0, "done"
        self._tried: set[str] = {text}
        self._end = "\n" if text.endswith("\n") else ""

    def run(self) -> str:
        """Search until no change makes the text shorter, the time is up, or it is interrupted."""
        before = ""
        try:
            while before != self.current:
                before = self.current
                self._until_fixed(self._inside)  # large parts go first
                self._until_fixed(self._balanced)
                self._until_fixed(self._lines)  # with few lines left, the rest takes few tests
                self._brackets()
                self._tokens()
                self._one_line()
            self._end_line()
        except _TimeIsUp:
            self.ended = "time"
        except KeyboardInterrupt:
            self.ended = "interrupted"
        return self.current

    def _until_fixed(self, family: Callable[[], None]) -> None:
        before = ""
        while before != self.current:
            before = self.current
            family()

    def _inside(self) -> None:
        """Replace the text by one of the jaxprs directly inside it."""
        any(self._try(text, "inside") for text in braced(self.current))

    def _one_line(self) -> None:
        joined = " ".join(self.current.split())
        if len(joined) <= _WIDTH:
            self._try(joined, "lines")

    def _end_line(self) -> None:
        """End the last line with a newline, as files do, unless the text is only interesting without."""
        ended = f"{self.current}\n"
        if not self.current.endswith("\n") and self.test(ended):
            self.current = ended

    def _lines(self) -> None:
        """Remove lines, or else turn what they bind into arguments: that removes the first half of a chain whose middle counts."""
        for k in range(1, _LAST + 1):  # the trees of arguments at the end keep all arguments
            parts = lines_of(self.current)
            self._try("".join([*parts[:-k], *parts[len(parts) - k + 1 :]]), "lines")
        for parts, start, stop in self._slices(lines_of):
            self._without(parts, start, stop)

    def _balanced(self) -> None:
        """Remove equations of several lines, definitions and params, from the end."""
        parts = lines_of(self.current)
        end = len(parts)
        for start, stop in balanced_lines(parts):
            if stop <= end and self._without(parts, start, stop):
                parts, end = lines_of(self.current), start

    def _without(self, parts: Sequence[str], start: int, stop: int) -> bool:
        """Remove lines, or else turn what they bind into arguments; return whether one of the two is interesting."""
        before, after = "".join(parts[:start]), "".join(parts[stop:])
        return self._try(before + after, "lines") or self._try(
            with_binders(before, parts[start:stop], after), "arguments"
        )

    def _tokens(self) -> None:
        for parts, start, stop in self._slices(tokens_of):
            self._try("".join([*parts[:start], *parts[stop:]]), "tokens")

    def _brackets(self) -> None:
        """Remove what is in brackets, from the end."""
        parts = tokens_of(self.current)
        for start, stop in bracketed(parts):
            if stop <= len(parts):
                shorter = [*parts[:start], *parts[stop:]]
                if self._try("".join(shorter), "brackets"):
                    parts = shorter

    def _slices(
        self, split: Callable[[str], list[str]]
    ) -> Iterator[tuple[Sequence[str], int, int]]:
        """Yield halves of the parts, quarters, and so on to single ones, from the end; parts that were removed are gone.

        Where one could be removed, the next one is twice as large: a line at the end may be what
        kept all others.
        """
        size = max(1, len(split(self.current)) // 2)
        while size:
            now, start = size, len(split(self.current))
            while start > 0:
                parts, before = split(self.current), self.current
                stop, start = start, max(start - now, 0)
                yield parts, start, stop
                now = size if self.current is before else 2 * now
            size //= 2

    def _try(self, text: str, family: str) -> bool:
        text = text.rstrip() + self._end if self._end else text
        if (
            text in self._tried
            or text.isspace()
            or not text
            or TextSize.of(text) >= TextSize.of(self.current)
        ):
            return False
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise _TimeIsUp
        self._tried.add(text)
        self.tests += 1
        if not self.test(text):
            return False
        self.current = text
        self.on_smaller(text, family)
        return True
