"""Tables for people: aligned lines in a file or a pipe; on a terminal they may be drawn in its width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxprtool.analyses.answer import Answer

__all__ = ["Parts", "Report", "Table", "size_text"]


class Table(NamedTuple):
    """Rows of texts below the titles of their columns.

    Attributes:
      titles: the titles; columns whose title ends with `<` are aligned to the left, the others to
        the right.
      rows: the texts.
      heading: a line above, or "".
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    heading: str = ""

    def lines(self) -> list[str]:
        """Return the table as aligned lines."""
        titles = [t.removesuffix("<") for t in self.titles]
        left = [t.endswith("<") for t in self.titles]
        columns = list(zip(titles, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        found = [self.heading] if self.heading else []
        for row in (titles, *self.rows):
            cells = [
                x.ljust(w) if at_left else x.rjust(w)
                for x, w, at_left in zip(row, widths, left, strict=True)
            ]
            found.append("  ".join(cells).rstrip())
        return found


Parts = Sequence[str | Table]


class Report(Answer):
    """An answer of lines and tables."""

    __slots__ = ()

    def parts(self) -> Parts:
        """Return the lines and tables, from top to bottom."""
        raise NotImplementedError

    def lines(self) -> list[str]:
        found: list[str] = []
        for part in self.parts():
            found += [part] if isinstance(part, str) else part.lines()
        return found


def size_text(nbytes: int) -> str:
    """Return a number of bytes with three or four digits: `12.5 MiB`."""
    size, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{nbytes:,} B" if units[0] == "B" else f"{size:,.4g} {units[0]}"
