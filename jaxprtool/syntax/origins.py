"""Origins of equations in text: JAX's annotations at the right edge, `# file.py:12:4 (loss)` and `# [jvp(layer)]`.

The releases to 0.2.21 write `[file.py:12 (loss)]` for the first of them.

All annotations of a text begin in one column, to the right of everything else. The annotation with
an equation's line of Python is on the line of its ` = `, and the one with its name stack on the
line below (from 0.6.1 to 0.10.0 beside it). Until 0.4.21 an equation without results has a ` = `
too, and both. Where several equations share a line, their annotations
follow below each other, in the order of the text, and all equations have one if any does. An
annotation without a text belongs to an equation that comes from no line of Python, and `# []` to an
equation without names: JAX prints both.
"""

from __future__ import annotations

import functools
import itertools
import operator
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.frozen import set_field
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.origin import NAMES, SOURCE, Frame, Names, Origin, names_of, stack_of
from jaxprtool.ir.spans import new_span
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "HARD_BREAK",
    "Annotated",
    "Annotating",
    "annotate",
    "as_comment",
    "find_annotations",
    "size_of",
]

# What has no `)` at its end is looked at once, whatever stands in it.
_SOURCE = pattern(r"(?=[^#\n]*\)$)([^#\n]*?):(\d++)(?::(\d++))? \(([^#\n]*)\)$")
_BRACKETS = pattern(r" (\[([^\[\]#\n]+):(\d+) \(([^()\[\]#\n]*)\)\])$")
_NAMES = pattern(r"\[([^#\n]*)\]$")
_ANNOTATION = pattern(r"(?:(?=[^#\n]*\) *$)[^#\n]*?:\d++(?::\d++)? \([^#\n]*\)|\[[^#\n]*\])? *")
_NO_OPERANDS = pattern(r" = [^\s\[]+$|\]$")
_TYPED_LITERAL = pattern(r":[^\s\[\]]+\[[^\[\]]*\]$")
_EQUATION = pattern(r"[^='\"]* = (?!\{ lambda\b)")  # not one in the value of a param
_WHERE = pattern(r"( *)where ")
_MARK = " # "
HARD_BREAK = "\x00"


class Annotating(NamedTuple):
    """How a release writes annotations.

    Attributes:
      beside: whether further annotations of a line are on the same line, and not below.
      in_brackets: whether a line of Python stands in brackets, `[file.py:12 (loss)]`, where no
        equation shows its names.
      without_results: whether equations without results have one with their line of Python.
    """

    beside: bool = False
    in_brackets: bool = False
    without_results: bool = False


class _Note(NamedTuple):
    """An annotation: a frame, a name stack, or neither."""

    frame: Frame | None
    names: Names | None


class _Found(NamedTuple):
    """The annotations of a line.

    Attributes:
      column: the column where they begin, in bytes, as JAX counts columns.
      start: the number of characters before them.
      equation: the number of the line of equations to which they belong.
      notes: the annotations.
    """

    column: int
    start: int
    equation: int
    notes: Sequence[_Note]


# Called as a class, it takes three times as long.
_new_found: Callable[[Any], _Found] = functools.partial(tuple.__new__, _Found)  # pyright: ignore[reportUnknownMemberType]


class Annotated:
    """A text with annotations.

    Attributes:
      text: the text without its annotations, and without lines that hold nothing else.
      numbers: for each line of `text` its number in the annotated text, from 1.
      beside: whether a line has several annotations.
      below: whether annotations of an equation stand below each other.
    """

    def __init__(self, lines: Sequence[str], found: dict[int, _Found]):
        self._notes = by_line = dict[int, deque[_Note]]()
        # one object for the equations of one line of Python, and what is derived from it later
        self._origins: dict[tuple[Frame | None, Names | None, int], Origin] = {}
        left: list[str | None] = [*lines]
        several = below = False
        for number in sorted(found):
            _, start, equation, notes = found[number]
            left[number] = lines[number][:start].rstrip(" ") or None
            several = several or len(notes) > 1
            if equation in by_line:
                by_line[equation].extend(notes)
                below = True
            else:
                by_line[equation] = deque(notes)
        self.beside, self.below = several, below
        kept = [x for x in left if x is not None]
        self.text = "\n".join(kept)
        self.numbers = [i for i, x in enumerate(left, 1) if x is not None]
        self._starts = [0, *itertools.accumulate([len(x) + 1 for x in kept])]

    def give(self, places: Iterable[tuple[int, JaxprEqn]]) -> None:
        """Give equations their origins; `places` are the offsets of the names of their primitives."""
        ordered = sorted(places, key=operator.itemgetter(0))
        starts, numbers = self._starts, self.numbers
        on_line = deque([(numbers[bisect_right(starts, at) - 1] - 1, eqn) for at, eqn in ordered])
        text = self.text
        self._assigned = {id(eqn) for at, eqn in ordered if text.startswith(" = ", at - 3)}
        last: JaxprEqn | None = None
        for line in sorted(self._notes):
            notes = self._notes[line]
            while on_line and on_line[0][0] <= line:
                at, last = on_line.popleft()
                if at == line and notes:
                    self._give_one(last, notes)
            if notes and last is not None and last.origin is None:  # at its end, as comments stand
                self._give_one(last, notes)

    def _give_one(self, eqn: JaxprEqn, notes: deque[_Note]) -> None:
        with_frame, with_names = _has(eqn, id(eqn) in self._assigned)
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
        set_field(eqn, "origin", origin)
        span = eqn.span
        if span is not None:
            set_field(eqn, "span", new_span((span.source, span.start, span.end, origin)))


def _has(eqn: JaxprEqn, assigned: bool) -> tuple[bool, bool]:
    """Whether JAX annotates an equation with its line of Python, and with its name stack.

    `assigned`: whether it has a ` = ` also without results.
    """
    on_a_reference = bool(eqn.primitive.notation)
    return bool(eqn.out_binders) or on_a_reference or assigned, not on_a_reference


def find_annotations(text: str) -> Annotated | None:
    """Return a text with its annotations separated; None where it has none."""
    lines: list[str] = []
    if ")]\n" in text or text.endswith(")]"):
        lines = text.split("\n")
        if (in_brackets := _in_brackets(lines)) is not None:
            return in_brackets
    if "#" not in text or "# " not in text:  # looking for what ends in a blank is slow
        return None
    lines = lines or text.split("\n")
    sure: dict[int, _Found] = {}
    unsure: dict[int, _Found] = {}  # what only its column tells from a comment
    last: dict[int, _Found] = {}  # the same, for the last of several on a line
    known: dict[str, _Note | None] = {}  # by the words: many equations are of one line of Python
    equation = 0
    for number, line in enumerate(lines):
        if "#" not in line:
            continue
        before, mark, said = line.rpartition(_MARK)
        if not mark or "#" in before or "#" in said:
            if found := _several(line, number) or _glued(line, number):
                equation = number
                certain = any(note.frame for note in found.notes)
                (sure if certain else unsure)[number] = found
                if not certain and (note := _note(said)):
                    last[number] = _Found(size_of(before), len(before), number, (note,))
                continue
            if not mark:
                continue
        beside = before and not before.isspace()
        equation = number if beside else equation
        note = known[said] if said in known else known.setdefault(said, _note(said))
        if note is not None:
            certain = beside and note.frame is not None
            found = _new_found((size_of(before), len(before), equation, (note,)))
            (sure if certain else unsure)[number] = found
    columns = {line.column for line in sure.values()}
    if not sure and unsure:
        columns = _columns_of_names(lines, unsure)
    # What stands before the column of the annotations is a comment, an empty one even.
    unsure = {i: x if x.column in columns else last.get(i, x) for i, x in unsure.items()}
    unsure = {i: line for i, line in unsure.items() if line.column in columns}
    return Annotated(lines, sure | unsure) if sure or unsure else None


def _several(line: str, number: int) -> _Found | None:
    """Return the annotations of a line that ends with several, and their column; None for another line.

    Before each annotation after the first there are as many blanks as characters left of the first.
    """
    pieces = line.split(_MARK)
    first = len(pieces)
    while first > 1 and _ANNOTATION.fullmatch(pieces[first - 1]):
        first -= 1
    before, found = _MARK.join(pieces[:first]), pieces[first:]
    column = size_of(before)
    gap = " " * column
    if len(found) < 2 or not before.strip():
        return None
    if any(not x.endswith(gap) or x[: -len(gap)].endswith(" ") for x in found[:-1]):
        return None
    notes = [_note(x.strip()) or _NOTHING for x in found]
    return _Found(column, len(before), number, notes)


def _glued(line: str, number: int) -> _Found | None:
    """Return the annotation in a line that has no blank before its `#`, as an editor may leave it;
    None for another line.
    """
    start = line.rfind("# ")
    if start <= 0 or line[start - 1] == " ":
        return None
    note = _note(line[start + 2 :])
    if note is None or note.frame is None:
        return None
    return _Found(size_of(line[:start]), start, number, (note,))


def _note(text: str) -> _Note | None:
    """Return the annotation that a text spells; None for a comment."""
    if m := _SOURCE.match(text):
        return _Note(Frame(m[1], int(m[2]), int(m[3]) if m[3] else None, m[4]), None)
    if m := _NAMES.match(text):
        return _Note(None, names_of(m[1]))
    return None if text else _NOTHING


_NOTHING = _Note(None, None)


def _in_brackets(lines: Sequence[str]) -> Annotated | None:
    """Return a text with annotations as the releases to 0.2.21 print them, `[file.py:12 (f)]`, all in one column.

    None where there are none.
    """
    found: dict[int, _Found] = {}
    for number, line in enumerate(lines):
        if line.endswith(")]") and (m := _BRACKETS.search(line)):
            before = line[: m.start()].rstrip(" ")
            if before and not before[-1].isspace():
                note = _Note(Frame(m[2], int(m[3]), None, m[4]), None)
                found[number] = _Found(size_of(line[: m.start(1)]), m.start(1), number, (note,))
    same_column = len({line.column for line in found.values()}) == 1
    return Annotated(lines, found) if same_column else None


def _columns_of_names(lines: Sequence[str], unsure: Mapping[int, _Found]) -> set[int]:
    """Return the column of name stacks in a text without lines of Python, as a set; empty where
    there are only comments.

    Name stacks begin in one column, to the right of everything else. Comments follow their
    equations after two blanks.
    """
    below = _additions(lines, unsure)
    columns = {i: line.column for i, line in unsure.items() if i not in below}
    column = max(columns.values(), default=-1)
    there = {i for i, c in columns.items() if c == column}
    widths = {
        i: _width(x[: unsure[i].start].rstrip(" ")) if i in there else size_of(x)
        for i, x in enumerate(lines)
        if i not in below
    }
    bare = [x.partition(_MARK)[0] for i, x in enumerate(lines) if i not in below]
    equations = sum(bool(_EQUATION.match(x)) for x in bare)  # what a comment says is none
    several = len(there) > 1 or equations <= 1
    alone = several and max(widths.values(), default=0) <= column
    return {column} if alone and any(widths[i] != column - 1 for i in there) else set()


def _width(line: str) -> int:
    """Return the length in bytes of a line before blanks at its end were stripped; an equation without
    operands ends with one.
    """
    bare = _NO_OPERANDS.search(line) and not _TYPED_LITERAL.search(line)
    return size_of(line) + bool(bare and _MARK not in line)


def _additions(lines: Sequence[str], maybe_names: Container[int] = ()) -> set[int]:
    """Return the lines that only this package writes: interfaces with the comments around them,
    constants, and comments.

    The column of annotations does not take them into account: a constant may be megabytes long. The
    lines `maybe_names` may be annotations that stand alone, and no comments.
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
    """Return a comment as it is written beside an equation: an annotation at its end loses its
    blank, `#file.py:1:2 (f)`.
    """
    before, mark, last = comment.rpartition("# ")
    return f"{before}#{last}" if mark and _SOURCE.match(last) else comment


def annotate(
    pieces: Sequence[str],
    places: Sequence[tuple[int, JaxprEqn]],
    *,
    how: Annotating,
    has_additions: bool,
) -> str:
    """Return a text with annotations.

    Args:
      pieces: the pieces of the text; `HARD_BREAK` stands for a line break inside a value, which JAX
        takes for a character like any other when it looks for the longest line.
      places: annotated equations, in the order of the text, each with the index of a piece on its
        line.
      how: how the release writes them.
      has_additions: whether the text may have lines that only this package writes.
    """
    if not places:
        return "".join(pieces)
    on_line: dict[int, list[JaxprEqn]] = {}
    line = before = 0
    for index, eqn in places:
        line, before = line + "".join(pieces[before:index]).count("\n"), index
        on_line.setdefault(line, []).append(eqn)
    lines_of_python = any(eqn.origin and eqn.origin.shown & SOURCE for _, eqn in places)
    every = 0 if lines_of_python else NAMES  # names alone are told from comments by their column
    if how.in_brackets and any(eqn.origin and eqn.origin.shown & NAMES for _, eqn in places):
        how = how._replace(in_brackets=False)  # names in brackets alone would look like operands
    written: dict[Origin | None, tuple[str, str]] = {None: ("", "[]")}
    found = {line: _notes_of(eqns, every, written, how) for line, eqns in on_line.items()}
    mark = " " if how.in_brackets else _MARK
    text = "".join(pieces)
    lines = text.split("\n")
    apart = _additions(lines) if has_additions else ()
    sizes = [*map(len if text.isascii() else size_of, lines)]
    width = max([size for i, size in enumerate(sizes) if i not in apart])
    blank = " " * width
    for number, notes in found.items():
        line, size = lines[number], sizes[number]
        if HARD_BREAK in line:
            size = size_of(line.rpartition(HARD_BREAK)[2])
        is_marked = bool(notes) and (bool(notes[0]) or mark == _MARK)
        first = f"{line}{blank[size:]}{mark}{notes[0]}" if is_marked else line
        below = [f"{blank}{mark}{note}" for note in notes[1:]]
        lines[number] = ("" if how.beside else "\n").join([first, *below])
    return "\n".join(lines).replace(HARD_BREAK, "\n")


def _notes_of(
    eqns: Sequence[JaxprEqn],
    shown: int,
    written: dict[Origin | None, tuple[str, str]],
    how: Annotating,
) -> list[str]:
    """Return the annotations of the equations of a line, in the order in which they are read.

    Args:
      eqns: the equations.
      shown: the parts that are shown for all equations, whatever their own origins say.
      written: a cache of the texts of the frame and the names of origins.
      how: how the release writes annotations.
    """
    for eqn in eqns:
        shown |= 0 if eqn.origin is None else eqn.origin.shown
    found: list[str] = []
    for eqn in eqns:
        with_frame, with_names = _has(eqn, how.without_results)
        origin = eqn.origin
        if origin not in written:
            assert origin is not None
            frame = str(origin.frame or "")
            frame = f"[{frame}]" if frame and how.in_brackets else frame
            written[origin] = frame, f"[{stack_of(origin.names or ())}]"
        frame, names = written[origin]
        if shown & SOURCE and with_frame:
            found.append(frame)
        if shown & NAMES and with_names:
            found.append(names)
    return found


def size_of(text: str) -> int:
    """Return the length of a text as JAX's printer counts columns: in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
