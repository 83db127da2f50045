"""Provenance of the memory that references point to: its marks, and memory that is bad because nothing has written to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.plans import Plan, is_float
from jaxprtool.analyses.blaming.provenance import CLEAN, Mark, merged
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.ir.jaxpr import DropVar

__all__ = ["Cells"]


class Cells:
    """The marks of the memory that cells point to; an array shares its mark with all its views."""

    def __init__(self, sought: Sought, good_mark: Callable[[int, int, int], Mark]):
        """Begin with nothing known.

        Args:
          sought: what a bad value is.
          good_mark: returns the mark of a good value for the origins that it depends on (taint,
            decided and mixed of `Mark`).
        """
        self.sought, self._good_mark = sought, good_mark
        self._marks: dict[int, tuple[Any, Mark]] = {}
        # arrays that are bad because nothing has written to them
        self._unwritten: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def note_unwritten(self, args: Sequence[Any]) -> None:
        """Note memory that is bad before the program has written to it, as that of a kernel's results is."""
        for x in args:
            if type(x) is Cell and not self.mark_of(x).bad and self.holds_bad(x):
                base = _base(x.value)
                self._unwritten[id(base)] = base

    def mark_of(self, value: Any) -> Mark:
        """Return the mark of what a reference points to, or of an array that a reference pointed to."""
        if not self._marks:
            return CLEAN
        found = self._marks.get(id(_base(value.value if type(value) is Cell else value)))
        return CLEAN if found is None else found[1]

    def mark_of_all(self, values: Sequence[Any]) -> Mark:
        """Return the merged mark of what the references among values point to."""
        if not self._marks:
            return CLEAN
        return merged([CLEAN, *[self.mark_of(x) for x in values if type(x) is Cell]])

    def holds_bad(self, cell: Cell) -> bool:
        """Whether a cell holds a bad value."""
        return is_float(cell.aval.inner) and cell.value in self.sought

    def memory_is_bad(self, cell: Cell) -> bool:
        """Whether the whole memory that a cell is a part of holds a bad value: for a block of a kernel, all blocks."""
        return is_float(cell.aval.inner) and _base(cell.value) in self.sought

    def turned_bad(self, cell: Cell) -> bool:
        """Whether a cell that was good holds a bad value now."""
        if self.mark_of(cell).bad:
            return False
        if self.holds_bad(cell):
            return id(_base(cell.value)) not in self._unwritten
        self._unwritten.pop(id(_base(cell.value)), None)
        return False

    def write(self, cell: Cell, mark: Mark) -> None:
        """Set the mark of a cell after an equation that may have written to it."""
        base = _base(cell.value)
        before = self._marks.get(id(base))
        if before is not None:
            mark = merged([before[1], mark])
        if not self.holds_bad(cell):
            mark = self._good_mark(mark.taint, mark.decided, mark.mixed)
        if mark.taint:
            self._marks[id(base)] = (base, mark)

    def drops(
        self,
        plan: Plan,
        log: Log,
        i: int,
        known: Sequence[tuple[int, Mark]],
        spoilt: Sequence[int],
    ) -> bool:
        """Whether an equation on references has read a bad value that is neither in its results nor in what the references hold now.

        Args:
          plan: the plan of the equation.
          log, i: the log of its jaxpr, and its index there.
          known: the marks of its operands, with their positions.
          spoilt: the positions of its bad results.
        """
        eqn = plan.eqn
        if not any(m.bad for _, m in known):
            return False
        if any(not isinstance(eqn.out_binders[k], DropVar) for k in spoilt):
            return False
        writes = any(is_float(x.aval) for x in eqn.inputs)  # references do not count as floats
        values = (*log.ins(i), *log.given(i))
        return not writes or not any(type(x) is Cell and self.memory_is_bad(x) for x in values)


def _base(array: Any) -> Any:
    """Return the array that owns the memory of a view."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array
