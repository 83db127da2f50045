"""The provenance of values that hold bad values, or depend on them: what `analyses.blaming.flow` keeps while a program runs.

A `Mark` says of which origins a value is bad, and on which it depends; a set of origins is an int
with a bit for each. `Origin` is where bad values began, `Made` an equation that made or handed on
some. A `Frame` has the marks of a jaxpr that runs now, a `Context` what stays known of a jaxpr at
its place in the program, and a `Call` what is known at an equation while jaxprs run inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Range
from jaxprtool.analyses.blaming.origin_sets import Stacked
from jaxprtool.analyses.blaming.zeros import Zeros
from jaxprtool.analyses.places import Place, Step
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = [
    "CLEAN",
    "Call",
    "Context",
    "Described",
    "Entry",
    "Event",
    "Frame",
    "Made",
    "Mark",
    "Origin",
    "Path",
    "Source",
    "merged",
]

Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Something outside of all equations that gives a bad value to the program.

    Attributes:
      kind: `argument`, `constant` or `literal`.
      index: the position of the argument or constant; for a literal, that among the operands of its
        equation.
      name: the variable's name, or "".
    """

    kind: str
    index: int
    name: str = ""


class Made:
    """An equation whose result has held a bad value, or a source of one.

    An equation counts once at each place in the program, whatever the iterations of the loops
    around it.

    Attributes:
      eqn: the equation; None for a source that no equation has taken yet.
      source: the source, or None.
      frame: the frame in which it ran the first time; None for a source.
      times: how often its result was bad.
      count: the largest number of bad elements of its results.
      nan: whether some have been NaN.
      origins: the origins of its bad values, as bits.
      parents: the `Made`s of its bad operands.
      origin: the origin that it is itself, or None.
      zeros: for a product that is bad where an operand is 0, what is known of these zeros; None
        where nobody has looked.
    """

    __slots__ = (
        "count",
        "eqn",
        "frame",
        "nan",
        "origin",
        "origins",
        "parents",
        "source",
        "times",
        "zeros",
    )

    def __init__(
        self,
        eqn: JaxprEqn | None,
        frame: Frame | None,
        source: Source | None = None,
        parents: tuple[Made, ...] = (),
        origins: int = 0,
        worst: int = 0,
    ):
        self.eqn, self.frame, self.source = eqn, frame, source
        self.times, self.origins = int(worst > 0), origins
        self.count, self.nan = worst >> 1, worst & 1 > 0
        self.parents = parents
        self.origin: Origin | None = None
        self.zeros: Zeros | None = None

    @property
    def place(self) -> Place | None:
        """Its place the first time; None for a source."""
        if self.eqn is None or self.frame is None:
            return None
        return Place(self.eqn, self.frame.path())


class Mark(NamedTuple):
    """What is known of a value that holds a bad value or depends on one.

    All sets of origins are ints with a bit for each.

    Attributes:
      made: what made the bad values in it; empty for a good value.
      bad: the origins of the bad values in it.
      taint: the origins that it depends on in any way.
      decided: those that it depends on through a decision: a comparison, a branch, the end of a
        loop, an index.
      mixed: those from whose bad values good ones in it were computed or picked. (Where a
        `select_n` leaves bad values out, by a predicate that does not depend on them, its result is
        tainted, and nothing is mixed in.)
    """

    made: tuple[Made, ...]
    bad: int
    taint: int
    decided: int
    mixed: int

    @property
    def felt(self) -> int:
        """The origins that a value computed from this one depends on."""
        return self.bad | self.mixed


CLEAN = Mark((), 0, 0, 0, 0)


def merged(marks: Sequence[Mark]) -> Mark:
    """Return the mark of a value that depends on all of several."""
    if len(marks) == 1:
        return marks[0]
    made, bad, taint, decided, mixed = marks[0] if marks else CLEAN
    for more, b, t, d, m in marks[1:]:
        bad, taint, decided, mixed = bad | b, taint | t, decided | d, mixed | m
        made += more
    return Mark(tuple(dict.fromkeys(made)), bad, taint, decided, mixed)


class Described(NamedTuple):
    """What the values at an origin are.

    Attributes:
      kind: the first of the sought kinds that the equation's result holds.
      result: the position of the equation's result that is described.
      type: the type of that result; "" where no result is bad.
      n_bad: how many of its elements are bad.
      size: how many elements it has.
      indices: the first few indices at which it is bad.
      values: its values there.
      operands: the range of each operand.
    """

    kind: str
    result: int = 0
    type: str = ""
    n_bad: int = 0
    size: int = 0
    indices: Sequence[tuple[int, ...]] = ()
    values: Sequence[Any] = ()
    operands: Sequence[Range | None] = ()


class Origin:
    """Where bad values began: an equation that makes them of good ones, or a source.

    Attributes:
      made: the `Made` of the equation or the source.
      bit: its bit in sets of origins.
      eqn: the equation that makes them; for a source the first one whose result is bad by it, or
        else the first that reads it.
      path: the way to that equation.
      order: the number of the event; None until an equation has read the source.
      flows: whether a result of that equation is bad.
      source: what gave the value, where no equation made it.
      seen: the values of operands and results, where they are kept.
      earlier: where the operands are bad too, at other indices or with infinities, their origins.
    """

    __slots__ = (
        "_describe",
        "_described",
        "bit",
        "earlier",
        "eqn",
        "flows",
        "made",
        "order",
        "path",
        "seen",
        "source",
    )

    def __init__(self, made: Made, kind: str, bit: int):
        self.made, self.bit, self.source = made, bit, made.source
        self.eqn: JaxprEqn | None = None
        self.path: Path = ()
        self.order: int | None = None
        self.flows = False
        self.earlier = 0
        self.seen: tuple[Sequence[Any], Sequence[Any]] = (), ()
        self._described: Described | str = kind
        self._describe: Callable[[], Described] | None = None

    @property
    def described(self) -> Described:
        """What its values are. There may be many origins, of which few are shown: they are looked at when that is asked."""
        if self._describe is not None:
            self._described, self._describe = self._describe(), None
        elif isinstance(self._described, str):
            self._described = Described(self._described)
        return self._described

    @property
    def kind(self) -> str:
        """The first of the sought kinds that it holds; a source keeps its kind, which may be another one at its equation."""
        return self.described.kind

    def is_described_by(self, describe: Callable[[], Described], *, later: bool) -> None:
        """Set what describes it, now or `later`, when it is asked for the first time."""
        self._describe = describe
        if not later:
            self._described, self._describe = describe(), None

    @property
    def place(self) -> Place | None:
        """The place of the equation."""
        return None if self.eqn is None else Place(self.eqn, self.path)

    @property
    def is_literal(self) -> bool:
        """Whether a literal gave the value."""
        return self.source is not None and self.source.kind == "literal"


class Entry(NamedTuple):
    """What was found at an equation the last time it ran: with the same marks of its operands, its results have the same marks.

    Attributes:
      known: the marks of its operands.
      spoilt: the positions of the results that were bad.
      marks: the marks of its results.
      made: the `Made` of the equation, if a result was bad.
      masks: whether it had a bad operand and good results.
    """

    known: tuple[Mark | None, ...]
    spoilt: tuple[int, ...]
    marks: tuple[Mark, ...]
    made: Made | None
    masks: bool


class Event(NamedTuple):
    """An equation that has masked bad values, or decided something by values that depend on them.

    Attributes:
      order: the number of the event, the first time.
      path: the way to the equation, the first time.
      bits: the origins of what it has masked or decided by, over all times.
    """

    order: int
    path: Path
    bits: int


class Context:
    """A jaxpr at its place in the program, whatever the iterations of the loops around it.

    Attributes:
      inner: the contexts of the jaxprs inside, by equation, param and branch.
      made: the `Made`s of its equations, and of its literals.
      entries: what was found at each equation the last time.
      masks: the equations with a bad operand and good results.
      deciding: the equations whose decision depends on a bad value.
      calls: for equations that run jaxprs, the marks of their results the last time.
    """

    __slots__ = ("calls", "deciding", "entries", "inner", "made", "masks")

    def __init__(self) -> None:
        self.inner: dict[tuple[JaxprEqn, str, int | None], Context] = {}
        self.made: dict[Any, Made] = {}
        self.entries: dict[JaxprEqn, Entry] = {}
        self.masks: dict[JaxprEqn, Event] = {}
        self.deciding: dict[JaxprEqn, Event] = {}
        self.calls: dict[JaxprEqn, Sequence[Mark]] = {}

    def all_inside(self) -> Iterator[Context]:
        """Yield this context and those of all jaxprs inside. Not recursive."""
        stack: list[Context] = [self]
        while stack:
            context = stack.pop()
            yield context
            stack += context.inner.values()


class Call:
    """What is known at an equation while the jaxprs inside it run.

    Attributes:
      ins: the values of its operands.
      marks: the mark of each operand; empty where none is known.
      outs: the results of the last jaxpr inside that has run.
      out_marks: the marks of these results.
      by_position: the marks of the jaxprs' results at each position, merged over all iterations.
      steered: the mark of a loop's condition, merged over all iterations.
      cells: the mark of what the references in the jaxprs inside point to.
      stacks: the origins of what a loop stacks up, by position of the result.
    """

    __slots__ = (
        "_ids",
        "by_position",
        "cells",
        "ins",
        "marks",
        "out_marks",
        "outs",
        "stacks",
        "steered",
    )

    def __init__(self, ins: Sequence[Any], marks: Sequence[Mark]):
        self.ins, self.marks = ins, marks
        self.outs: Sequence[Any] = ()
        self.out_marks: Sequence[Mark] = ()
        self.by_position: dict[int, Mark] = {}
        self.steered: Mark = CLEAN
        self.cells: Mark = CLEAN
        self.stacks: dict[int, Stacked] = {}
        self._ids = {id(x): mark for x, mark in zip(ins, marks, strict=False)}

    def mark_of(self, value: Any, from_end: int) -> tuple[Mark | None, bool]:
        """Return the mark of an argument of a jaxpr inside, and whether it is that of this very value.

        The argument is an operand, a result of the last iteration, or a part of an operand. It is
        `from_end`-th last among the arguments, which have the order of the operands at their end.
        None where it may be computed from any operands.
        """
        found = self._ids.get(id(value))
        if found is not None:
            return found, True
        for x, mark in zip(self.outs, self.out_marks, strict=False):
            if x is value:
                return mark, True
        if 0 < from_end <= len(self.marks) and self.marks[-from_end].taint:
            return self.marks[-from_end], False
        return None, False

    def result_mark(self, k: int, value: Any) -> tuple[Mark | None, bool]:
        """Return the mark of result k, and whether it is that of this very value.

        The result is one of the last jaxpr inside, or stacked up from those of all iterations. None
        where nothing is known.
        """
        if k < len(self.outs) and self.outs[k] is value:
            return self.out_marks[k], True
        for x, mark in zip(self.outs, self.out_marks, strict=False):
            if x is value:
                return mark, True
        if k in self.by_position:
            return self.by_position[k], False
        return self._ids.get(id(value)), False

    def any_mark(self) -> Mark:
        """Return the merged mark of all operands and of the results of the last iteration."""
        return merged([*self.marks, *self.out_marks])


class Frame:
    """A jaxpr that runs, with the marks of its variables.

    Attributes:
      above: the frame of the jaxpr whose equation runs this one; None for the program.
      step: that equation, with the iteration of the loop; None for the program.
      marks: the marks of its variables.
      codes: what is bad in results of elementwise equations (`Sought.code`), while many equations
        are followed together.
      entry: the marks of its arguments (None where nothing is known).
      asked: the positions of the arguments whose values were looked at for bad ones.
      group: what is known of the jaxprs inside the equation that runs some now (`repeats.Group`).
      masked: whether an equation inside those has masked something.
      call: what is known at that equation; None while nothing is.
    """

    __slots__ = (
        "_context",
        "_path",
        "above",
        "asked",
        "call",
        "codes",
        "entry",
        "group",
        "marks",
        "masked",
        "step",
    )

    def __init__(self, above: Frame | None, step: Step | None):
        self.above, self.step = above, step
        self.marks: dict[Any, Mark] = {}
        self.codes: dict[Any, bytes] = {}
        self.entry: Sequence[Any] = ()
        self.asked: Sequence[int] = ()
        self.group: Any = None
        self.masked = False
        self.call: Call | None = None
        self._context: Context | None = None
        self._path: Path | None = None

    def context(self) -> Context:
        """The context of the jaxpr."""
        if self._context is None:
            if self.above is None or self.step is None:
                self._context = Context()
            else:
                inner = self.above.context().inner
                key = (self.step.eqn, self.step.param, self.step.branch)
                found = inner.get(key)
                self._context = inner.setdefault(key, Context()) if found is None else found
        return self._context

    def masks_inside(self) -> None:
        """Tell all frames around this one that an equation in it has masked something."""
        above = self.above
        while above is not None:
            above.masked = True
            above = above.above

    def path(self) -> Path:
        """The steps from the program to the jaxpr."""
        if self._path is None:
            self._path = (
                () if self.above is None or self.step is None else (*self.above.path(), self.step)
            )
        return self._path
