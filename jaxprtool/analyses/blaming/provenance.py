"""Where values come from that hold bad values, or depend on them: what `analyses.blaming.flow` keeps while a program runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """What gives a bad value to the program.

    Attributes:
      kind: `argument`, `constant` or `literal`.
      index: of an argument or a constant its position, of a literal that among the operands of its equation.
      name: the variable's name, or "".
    """

    kind: str
    index: int
    name: str = ""


class Made:
    """An equation, at one place modulo the steps of loops, whose result has held a bad value; or a source of one.

    Attributes:
      eqn: the equation; None for a source that no equation has taken yet.
      source: the source, or None.
      frame: the frame in which it ran the first time; None for a source.
      times: how often.
      count: how many elements of its results were bad, at most; nan: whether some have been NaN.
      origins: the origins of its bad values, as bits.
      parents: what made the bad operands.
      origin: the origin that it is, or None.
      zeros: of a product that is bad where an operand is 0, what is known of these; None where nobody has looked.
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
    """What is known of a value that depends on a bad one.

    Attributes:
      made: what made the bad value in it; nothing for a good value.
      bad: the origins of the bad values in it, as bits.
      taint: the origins that it depends on.
      decided: those that it depends on through a decision: a comparison, a branch, the end of a loop, an index.
      mixed: those from whose bad values good ones in it were computed or picked. (Where a `select_n` leaves bad values out, by a
        predicate that does not depend on them, what it gives is tainted, and nothing is mixed in.)
    """

    made: tuple[Made, ...]
    bad: int
    taint: int
    decided: int
    mixed: int

    @property
    def felt(self) -> int:
        """The origins that what is computed from the value depends on."""
        return self.bad | self.mixed


CLEAN = Mark((), 0, 0, 0, 0)


def merged(marks: Sequence[Mark]) -> Mark:
    """What is known of a value that depends on several."""
    if len(marks) == 1:
        return marks[0]
    made, bad, taint, decided, mixed = marks[0] if marks else CLEAN
    for more, b, t, d, m in marks[1:]:
        bad, taint, decided, mixed = bad | b, taint | t, decided | d, mixed | m
        made += more
    return Mark(tuple(dict.fromkeys(made)), bad, taint, decided, mixed)


class Origin:
    """Where bad values began: an equation that makes them of good ones, or a source.

    Attributes:
      made: the equation or the source.
      bit: what stands for it among bits.
      eqn, path: the equation that makes them; of a source the first whose result has one, or else the first that reads it.
      order: the number of the event, None as long as no equation has read the source.
      flows: whether a result of that equation is bad.
      kind: of the sought kinds the first that its result holds.
      source: what gave the value, where no equation made it.
      result: which result of the equation, the type of it, how many elements are bad, where the first of them are, and their values.
      operands: the range of each operand.
      seen: the values of operands and results, where they are kept.
      earlier: of one that appears in an equation whose operands are bad at other indices, or are infinite, their origins.
    """

    def __init__(self, made: Made, kind: str, bit: int):
        self.made, self.kind, self.bit, self.source = made, kind, bit, made.source
        self.eqn: JaxprEqn | None = None
        self.path: Path = ()
        self.order: int | None = None
        self.flows = False
        self.result = 0
        self.type = ""
        self.count = self.size = 0
        self.indices: list[tuple[int, ...]] = []
        self.values: list[Any] = []
        self.operands: list[Range | None] = []
        self.earlier = 0
        self.seen: tuple[Sequence[Any], Sequence[Any]] = (), ()

    @property
    def place(self) -> Place | None:
        """The place of the equation."""
        return None if self.eqn is None else Place(self.eqn, self.path)

    @property
    def is_literal(self) -> bool:
        """Whether a literal gave the value."""
        return self.source is not None and self.source.kind == "literal"


class Entry(NamedTuple):
    """What was known at an equation when it ran last: where it is so again, the same is known of its results.

    Attributes:
      known: what was known of its operands.
      spoilt: which of its results held a bad value.
      marks: what was known of its results.
      made: what stands for the equation, if a result held a bad value.
      masks: whether it had a bad operand and good results.
    """

    known: tuple[Mark | None, ...]
    spoilt: tuple[int, ...]
    marks: tuple[Mark, ...]
    made: Made | None
    masks: bool


class Event(NamedTuple):
    """An equation that has masked something, or decided by it.

    Attributes:
      order: the number of the event; path: the way to it; both of the first time.
      bits: the origins of what it has masked or decided by, of all times.
    """

    order: int
    path: Path
    bits: int


class Context:
    """A jaxpr where it stands in the program, whatever the steps of the loops around it.

    Attributes:
      inner: the jaxprs inside, by equation, param and branch.
      made: what equations of the jaxpr have made, and its literals.
      entries: what was known at each equation the last time.
      masks: equations with a bad operand and good results.
      deciding: equations whose decision depends on a bad value.
      calls: what was known of the results of equations whose jaxprs have run, the last time.
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
        """This one and those of the jaxprs inside. Not recursive."""
        stack: list[Context] = [self]
        while stack:
            context = stack.pop()
            yield context
            stack += context.inner.values()


class Call:
    """What is known at an equation while the jaxprs inside it run.

    Attributes:
      ins: the values of its operands.
      marks: what is known of each.
      outs, out_marks: the results of the last jaxpr inside, and what is known of them.
      by_position: what was known of the results at each position, in all steps.
      steered: what is known of the condition of a loop.
      cells: what is known of what the references of the jaxprs inside point to.
      stacks: the origins of what is stacked up of the steps of a loop, by position.
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
        """What is known of an argument of a jaxpr inside, and whether that is known of this very value.

        The argument is an operand, a result of the last step, or a part of an operand: arguments and operands have the same
        order at the end. None where it may be made of any operands.
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
        """What is known of a result, and whether that is known of this very value.

        It is a result of the last jaxpr inside, or stacked of those of all steps.
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
        """What is known of all operands and of the results of the last step together."""
        return merged([*self.marks, *self.out_marks])


class Frame:
    """A jaxpr that runs.

    Attributes:
      above: the frame of the equation that holds it; None for the program.
      step: that equation, with the step of the loop; None for the program.
      marks: what is known of its variables.
      codes: of bad results of elementwise equations, what is bad in them (`Sought.code`), while many are looked at.
      entry: what was known of its arguments.
      asked: which of its arguments were looked at.
      group: the equation whose jaxprs run now.
      masked: whether an equation inside those has masked something.
      call: what is known at that equation, as soon as something is.
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
        """Say to the frames around this one that an equation in it has masked something."""
        above = self.above
        while above is not None:
            above.masked = True
            above = above.above

    def path(self) -> Path:
        """The way to the jaxpr."""
        if self._path is None:
            self._path = (
                () if self.above is None or self.step is None else (*self.above.path(), self.step)
            )
        return self._path
