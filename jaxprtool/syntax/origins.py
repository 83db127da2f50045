"""Origins of equations in text: JAX's annotations at the right edge, `# file.py:12:4 (loss)` and `# [jvp(layer)]`.

All annotations of a text begin in one column, right of everything else. An equation has that of its line of Python
on the line of its ` = `, and that of its names on the line below; where several equations stand on a line, theirs
follow below each other, in the order of the text. An annotation without a text is one of an equation
that comes from no line of Python.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.origin import Frame, Origin, names_of, stack_of

__all__ = ["Annotated", "annotate", "find_annotations", "shown_origins"]

_SOURCE = re.compile(r"# ([^#\n]*?):(\d+)(?::(\d+))? \(([^#\n]*)\)$")
_NAMES = re.compile(r"# \[([^#\n]*)\]$")
_MARK = " # "


class _Note(NamedTuple):
    """An annotation: the offset of its `#`, the line of equations it belongs to, and a frame, names, or neither."""

    at: int
    line: int
    frame: Frame | None
    names: tuple[str, ...] | None


class Annotated:
    """A text with annotations.

    Attributes:
      text: the text, with blanks in the place of annotations.
    """

    def __init__(self, text: str, notes: Sequence[_Note]):
        pieces, end = [], 0
        for note in notes:
            stop = text.find("\n", note.at)
            stop = len(text) if stop < 0 else stop
            pieces += [text[end : note.at], " " * (stop - note.at)]
            end = stop
        self.text = "".join([*pieces, text[end:]])
        self._starts = [m.end() for m in re.finditer(r"^|\n", text)]
        self._notes: dict[int, deque[_Note]] = {}
        for note in notes:
            self._notes.setdefault(note.line, deque()).append(note)

    def give(self, places: Iterable[tuple[int, JaxprEqn]]) -> None:
        """Give equations their origins; `places` are the offsets of the names of their primitives."""
        for at, eqn in sorted(places, key=lambda p: p[0]):
            notes = self._notes.get(bisect_right(self._starts, at) - 1)
            if notes and eqn.out_binders:
                first = notes.popleft() if notes[0].names is None else None
                second = notes.popleft() if notes and notes[0].names is not None else None
                names = None if second is None else second.names
                origin = Origin(None if first is None else first.frame, names)
                span = eqn.span and eqn.span._replace(origin=origin)
                amend(eqn, origin=origin, span=span)


def find_annotations(text: str) -> Annotated | None:
    """The annotations of a text; None where it has none."""
    if _MARK not in text:
        return None
    notes: list[_Note] = []
    unsure: list[tuple[int, _Note]] = []  # what only its column tells from a comment
    columns: set[int] = set()
    start = equation = 0
    for number, line in enumerate(text.split("\n")):
        column = line.rfind(_MARK) + 1
        if column:
            alone = not line[:column].strip()
            equation = equation if alone else number
            if m := _SOURCE.match(line, column):
                frame = Frame(m[1], int(m[2]), int(m[3]) if m[3] else None, m[4])
                notes.append(_Note(start + column, equation, frame, None))
                columns.add(column)
            elif m := _NAMES.match(line, column):
                unsure.append((column, _Note(start + column, equation, None, names_of(m[1]))))
            elif line[column:] == "# ":
                unsure.append((column, _Note(start + column, equation, None, None)))
        start += len(line) + 1
    columns = columns or {column for column, _ in unsure}
    if len(columns) != 1 and not notes:
        return None  # comments that look like names
    notes += [note for column, note in unsure if column in columns]
    return Annotated(text, sorted(notes)) if notes else None


def shown_origins(eqns: Iterable[JaxprEqn]) -> tuple[bool, bool]:
    """Whether lines of Python, and whether names, are to be printed beside equations."""
    shown = [e.origin for e in eqns if e.origin is not None and e.origin.shown]
    return any(o.frame for o in shown), any(o.names is not None for o in shown)


def annotate(
    pieces: Sequence[str],
    places: Sequence[tuple[int, JaxprEqn]],
    frames: bool,
    names: bool,
) -> str:
    """A text with annotations.

    Args:
      pieces: what the text is made of.
      places: equations, in the order of the text, each with the index of a piece on its line.
      frames, names: what to show, as `shown_origins` says.
    """
    lines_before, count = [], 0
    for piece in pieces:
        lines_before.append(count)
        count += piece.count("\n")
    found: dict[int, list[str]] = {}
    for index, eqn in places:
        found.setdefault(lines_before[index], []).extend(_notes_of(eqn, frames, names))
    lines = "".join(pieces).split("\n")
    width = max(map(_size, lines))
    out = []
    for number, line in enumerate(lines):
        for k, note in enumerate(found.get(number, ("",))):
            shown = "" if k else line
            out.append(
                f"{shown}{' ' * (width - _size(shown))} # {note}" if number in found else line
            )
    return "\n".join(out)


def _notes_of(eqn: JaxprEqn, frames: bool, names: bool) -> list[str]:
    origin = eqn.origin
    found = [str((origin and origin.frame) or "")] if frames else []
    reference = "index" in eqn.params  # JAX shows no names beside `a[i] <- b` and its like
    if names and not (reference and frames):
        found.append(f"[{stack_of((origin and origin.names) or ())}]")
    return found


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
