"""Origins of equations in text: JAX's annotations at the right edge, `# file.py:12:4 (loss)` and `# [jvp(layer)]`.

The releases to 0.2.21 write `[file.py:12 (loss)]` for the first of them.

All annotations of a text begin in one column, right of everything else. An equation has that of its line of Python
on the line of its ` = `, and that of its names on the line below (from 0.6.1 to 0.10.0 beside it); where several equations stand on a line, theirs
follow below each other, in the order of the text, and all have one if any does. An annotation without a text is one of
an equation that comes from no line of Python, and `# []` one of an equation without names: JAX prints them.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.origin import NAMES, SOURCE, Frame, Names, Origin, names_of, stack_of
from jaxprtool.syntax.patterns import pattern

__all__ = ["HARD_BREAK", "Annotated", "annotate", "as_comment", "find_annotations", "size_of"]

# What has no `)` at its end is looked at once, whatever stands in it.
_SOURCE = pattern(r"# (?=[^#\n]*\)$)([^#\n]*?):(\d++)(?::(\d++))? \(([^#\n]*)\)$")
_BRACKETS = pattern(r"(?<=\S)  +(\[([^\[\]#\n]+):(\d+) \(([^()\[\]#\n]*)\)\])$", re.MULTILINE)
_NAMES = pattern(r"# \[([^#\n]*)\]$")
_ANNOTATION = pattern(r"(?:(?=[^#\n]*\) *$)[^#\n]*?:\d++(?::\d++)? \([^#\n]*\)|\[[^#\n]*\])? *")
_NO_OPERANDS = pattern(r" = [^\s\[]+$|\]$")
_TYPED_LITERAL = pattern(r":[^\s\[\]]+\[[^\[\]]*\]$")
_EQUATION = pattern(r"[^='\"]* = (?!\{ lambda\b)")  # not one in the value of a param
_WHERE = pattern(r"( *)where ")
_MARK = " # "
HARD_BREAK = "\x00"


class _Note(NamedTuple):
    """An annotation: the line of equations that it belongs to, and a frame, names, or neither."""

    line: int
    frame: Frame | None
    names: tuple[str, ...] | None


_Found: TypeAlias = (
    "tuple[int, list[_Note]]"  # on a line: the column, and the annotations from there on
)


class Annotated:
    """A text with annotations.

    Attributes:
      text: the text without its annotations, and without lines of nothing else.
      numbers: for each line of it which one it was, from 1.
      beside: whether several stand on a line.
    """

    def __init__(self, lines: Sequence[str], notes: dict[int, _Found]):
        left = [(i, x[: notes[i][0]].rstrip(" ") if i in notes else x) for i, x in enumerate(lines)]
        left = [(i, x) for i, x in left if x or i not in notes]
        self.text = "\n".join([x for _, x in left])
        self.numbers = [i + 1 for i, _ in left]
        self._starts = [0, *itertools.accumulate(len(x) + 1 for _, x in left)]
        self._notes: dict[int, deque[_Note]] = {}
        # one object for the equations of one line of Python, and what is derived from it later
        self._origins: dict[tuple[Frame | None, Names | None, int], Origin] = {}
        self.beside = any(len(several) > 1 for _, several in notes.values())
        for _, (_, several) in sorted(notes.items()):
            self._notes.setdefault(several[0].line, deque()).extend(several)

    def give(self, places: Iterable[tuple[int, JaxprEqn]]) -> None:
        """Give equations their origins; `places` are the offsets of the names of their primitives."""
        last: JaxprEqn | None = None
        ordered = deque(sorted(places, key=lambda p: p[0]))
        for line in sorted(self._notes):
            notes = self._notes[line]
            while ordered and self._line(ordered[0][0]) <= line:
                at, last = ordered.popleft()
                if self._line(at) == line and notes:
                    self._give_one(last, notes)
            if notes and last is not None and last.origin is None:  # at its end, as comments stand
                self._give_one(last, notes)

    def _line(self, at: int) -> int:
        """The line of the file, from 0, that an offset is on."""
        return self.numbers[bisect_right(self._starts, at) - 1] - 1

    def _give_one(self, eqn: JaxprEqn, notes: deque[_Note]) -> None:
        with_frame, with_names = _has(eqn)
        frame: Frame | None = None
        names: Names | None = ()
        shown = 0
        if with_frame and notes[0].names is None:
            frame, shown = notes.popleft().frame, SOURCE
        if with_names and notes and notes[0].names is not None:
            names, shown = notes.popleft().names, shown | NAMES
        key = (frame, names, shown)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin(*key)
        span = eqn.span and eqn.span._replace(origin=origin)
        amend(eqn, origin=origin, span=span)


def _has(eqn: JaxprEqn) -> tuple[bool, bool]:
    """Whether JAX shows the line of Python of an equation, and the names."""
    on_a_reference = bool(eqn.primitive.notation)
    return bool(eqn.out_binders) or on_a_reference, not on_a_reference


def find_annotations(text: str) -> Annotated | None:
    """The annotations of a text; None where it has none."""
    if (found := _in_brackets(text)) is not None:
        return found
    if "#" not in text or "# " not in text:  # looking for what ends in a blank is slow
        return None
    sure: dict[int, _Found] = {}
    unsure: dict[int, _Found] = {}  # what only its column tells from a comment
    lines = text.split("\n")
    equation = 0
    for number, line in enumerate(lines):
        column, glued = line.rfind(_MARK), line.rfind("# ")
        if glued < 0:
            continue
        if glued > column + 1 and (m := _SOURCE.match(line, glued)):  # as an editor may leave it
            frame = Frame(m[1], int(m[2]), int(m[3]) if m[3] else None, m[4])
            equation = number
            sure[number] = glued, [_Note(number, frame, None)]
            continue
        if column < 0:
            continue
        if several := _several(line, number):
            equation = number
            certain = any(note.frame for note in several[1])
            (sure if certain else unsure)[number] = several
            continue
        beside = bool(line[:column].strip())
        equation = number if beside else equation
        if m := _SOURCE.match(line, column + 1):
            frame = Frame(m[1], int(m[2]), int(m[3]) if m[3] else None, m[4])
            found = sure if beside else unsure
            found[number] = column, [_Note(equation, frame, None)]
        elif m := _NAMES.match(line, column + 1):
            unsure[number] = column, [_Note(equation, None, names_of(m[1]))]
        elif line[column:] == _MARK:
            unsure[number] = column, [_Note(equation, None, None)]
    columns = {column for column, _ in sure.values()}
    if not sure and unsure:
        columns = _columns_of_names(lines, unsure)
    notes = sure | {i: note for i, note in unsure.items() if note[0] in columns}
    return Annotated(lines, notes) if notes else None


def _several(line: str, number: int) -> _Found | None:
    """The annotations of a line that ends with several, and their column; None for another line.

    As many blanks as are left of the first one stand before each of the others.
    """
    pieces = line.split(_MARK)
    first = len(pieces)
    while first > 1 and _ANNOTATION.fullmatch(pieces[first - 1]):
        first -= 1
    before, found = _MARK.join(pieces[:first]), pieces[first:]
    gap = " " * len(before)
    if len(found) < 2 or not before.strip():
        return None
    if any(not x.endswith(gap) or x[: -len(gap)].endswith(" ") for x in found[:-1]):
        return None
    return len(before), [_note(x.strip(), number) for x in found]


def _note(text: str, number: int) -> _Note:
    if text.startswith("["):
        return _Note(number, None, names_of(text[1:-1]))
    m = _SOURCE.match(f"# {text}")
    frame = Frame(m[1], int(m[2]), int(m[3]) if m[3] else None, m[4]) if m else None
    return _Note(number, frame, None)


def _in_brackets(text: str) -> Annotated | None:
    """The annotations that the releases to 0.2.21 print, `[file.py:12 (f)]`, all in one column; None where there are none."""
    if ")]\n" not in text and not text.endswith(")]"):
        return None
    matches = [*_BRACKETS.finditer(text)]
    starts = [m.start(1) - text.rfind("\n", 0, m.start()) for m in matches]
    if not matches or len(set(starts)) > 1:
        return None
    notes: dict[int, _Found] = {}
    number = at = 0
    for m, start in zip(matches, starts, strict=True):
        number, at = number + text.count("\n", at, m.start()), m.start()
        note = _Note(number, Frame(m[2], int(m[3]), None, m[4]), None)
        notes[number] = start - 1, [note]
    return Annotated(text.split("\n"), notes)


def _columns_of_names(lines: Sequence[str], unsure: dict[int, _Found]) -> set[int]:
    """The column of names in a text without lines of Python, as a set; none where they are only comments.

    Names stand in one column, right of everything else. Comments follow their equations after two blanks.
    """
    below = _additions(lines, unsure)
    columns = {i: c for i, (c, _) in unsure.items() if i not in below}
    column = max(columns.values(), default=-1)
    there = {i for i, c in columns.items() if c == column}
    widths = {
        i: _width(x[:column].rstrip(" ")) if i in there else len(x)
        for i, x in enumerate(lines)
        if i not in below
    }
    bare = [x.partition(_MARK)[0] for i, x in enumerate(lines) if i not in below]
    equations = sum(bool(_EQUATION.match(x)) for x in bare)  # what a comment says is none
    several = len(there) > 1 or equations <= 1
    alone = several and max(widths.values(), default=0) <= column
    return {column} if alone and any(widths[i] != column - 1 for i in there) else set()


def _width(line: str) -> int:
    """The length of a line that has lost its blanks at the end; an equation without operands ends with one."""
    bare = _NO_OPERANDS.search(line) and not _TYPED_LITERAL.search(line)
    return len(line) + bool(bare and _MARK not in line)


def _additions(lines: Sequence[str], maybe_names: Container[int] = ()) -> set[int]:
    """The lines that only our form has: interfaces with the comments around them, values of constants, and comments.

    The column of annotations does not heed them: a constant may be megabytes long. The lines `maybe_names` may be
    annotations that stand alone, and no comments.
    """
    found: set[int] = set()
    above: list[int] = []
    inside = False
    where: str | None = None  # what further entries of a `where` section begin with
    for i, line in enumerate(lines):
        begins = line.startswith("args (")
        inside = begins or (inside and line[:1] in (" ", ")", "]", "}", "#"))
        if begins_where := _WHERE.match(line):
            where = begins_where[1] + " " * len("where ")
        elif where is not None and not line.startswith(where):
            where = None
        if inside or where is not None:
            found |= {i, *(above if begins else ())}
        if line.lstrip().startswith("#") and i not in maybe_names:
            found.add(i)
        if not line.startswith("#"):
            above = []
        else:
            above.append(i)
    return found


def as_comment(comment: str) -> str:
    """A comment as it stands beside an equation: an annotation at its end loses its blank, `#file.py:1:2 (f)`."""
    last = comment.rfind("# ")
    return f"{comment[:last]}#{comment[last + 2 :]}" if _SOURCE.match(comment, last) else comment


def annotate(
    pieces: Sequence[str], places: Sequence[tuple[int, JaxprEqn]], beside: bool = False
) -> str:
    """A text with annotations.

    Args:
      pieces: what the text is made of; `HARD_BREAK` stands for a line break inside a value, which JAX takes for
        a character like any other when it looks for the longest line.
      places: annotated equations, in the order of the text, each with the index of a piece on its line.
      beside: whether further annotations of a line stand on it, as before 0.10.1, and not below.
    """
    if not places:
        return "".join(pieces)
    lines_before = [0, *itertools.accumulate(piece.count("\n") for piece in pieces)]
    on_line: dict[int, list[JaxprEqn]] = {}
    for index, eqn in places:
        on_line.setdefault(lines_before[index], []).append(eqn)
    lines_of_python = any(eqn.origin and eqn.origin.shown & SOURCE for _, eqn in places)
    every = 0 if lines_of_python else NAMES  # names alone are told from comments by their column
    found = {line: _notes_of(eqns, every) for line, eqns in on_line.items()}
    lines = "".join(pieces).split("\n")
    apart = _additions(lines)
    width = max(size_of(line) for i, line in enumerate(lines) if i not in apart)
    out: list[str] = []
    for number, line in enumerate(lines):
        notes = found.get(number)
        if not notes:
            out.append(line)
            continue
        below = [f"{' ' * width}{_MARK}{note}" for note in notes[1:]]
        blanks = " " * (width - size_of(line.rpartition(HARD_BREAK)[2]))
        first = f"{line}{blanks}{_MARK}{notes[0]}"
        out += ["".join([first, *below])] if beside else [first, *below]
    return "\n".join(out).replace(HARD_BREAK, "\n")


def _notes_of(eqns: Sequence[JaxprEqn], shown: int) -> list[str]:
    """The annotations of the equations of a line, in the order in which they are read.

    `shown` is what all equations show, whatever their own origins say.
    """
    for eqn in eqns:
        shown |= 0 if eqn.origin is None else eqn.origin.shown
    found: list[str] = []
    for eqn in eqns:
        with_frame, with_names = _has(eqn)
        frame = eqn.origin and eqn.origin.frame
        if shown & SOURCE and with_frame:
            found.append(str(frame or ""))
        if shown & NAMES and with_names:
            found.append(f"[{stack_of((eqn.origin and eqn.origin.names) or ())}]")
    return found


def size_of(text: str) -> int:
    """Columns as JAX's printer counts them: bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
