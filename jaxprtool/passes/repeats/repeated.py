"""Find parts of programs that occur several times: windows of equations that are equal but for names.

Candidates are windows of 1, 2, 4, ... equations whose kinds agree (`passes.repeats.repetitions`),
extended to the right as long as all of them agree; a window that could begin earlier in all places
is left to the earlier window. Of the candidates the one that saves most equations is taken, then of
the rest the next one: greedy textual substitution (Apostolico and Lonardi, "Off-line compression by
greedy textual substitution", 2000).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from jaxprtool.interpreters.inside import any_equation
from jaxprtool.interpreters.reuse.copies import is_pure
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.passes.repeats.repetitions import UNIQUE, doubled, without_single

__all__ = ["Bodies", "Repeat", "best_repeats"]


class Repeat(NamedTuple):
    """A window of equations that occurs several times.

    Attributes:
      starts: where it begins, in order; the windows do not overlap.
      length: the number of equations.
    """

    starts: tuple[int, ...]
    length: int

    @property
    def saved(self) -> int:
        """How many equations are saved when each window becomes a call of one function."""
        n = len(self.starts)
        return (n - 1) * self.length - n


class Bodies:
    """The equations of several jaxprs, one jaxpr after the other.

    Attributes:
      eqns: the equations; None between jaxprs.
      begins: for each jaxpr the index of its first equation.
      kinds: a number for each equation, the same for those that are equal but for names and
        operands; `UNIQUE` for equations that no function may take.
      made: for each variable the index of its equation, and the position of the result.
      last_read: for each variable the last index that reads it; the end of the jaxpr for a result
        of the jaxpr.
    """

    def __init__(self, programs: Sequence[ClosedJaxpr], keys: Keys):
        self.eqns: list[JaxprEqn | None] = []
        self.begins: dict[ClosedJaxpr, int] = {}
        self.kinds: list[int] = []
        self.made: dict[Any, tuple[int, int]] = {}
        self.last_read: dict[Any, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._keys = keys
        for program in programs:
            self._add(program)

    def _add(self, program: ClosedJaxpr) -> None:
        self.begins[program] = len(self.eqns)
        for eqn in program.eqns:
            i = len(self.eqns)
            self.last_read.update((x, i) for x in eqn.inputs if type(x) is not Lit)
            self.made.update((v, (i, r)) for r, v in enumerate(eqn.out_binders))
            self.eqns.append(eqn)
            self.kinds.append(self._kind(eqn, program))
        end = len(self.eqns)
        self.last_read.update((x, end) for x in program.jaxpr.outs if type(x) is not Lit)
        self.eqns.append(None)
        self.kinds.append(UNIQUE)

    def _kind(self, eqn: JaxprEqn, program: ClosedJaxpr) -> int:
        if not is_pure(eqn) or any(type(x) is Lit and x.val is None for x in eqn.inputs):
            return UNIQUE
        operands = tuple([(type(x) is Lit, x.aval.strong) for x in eqn.inputs])
        scope = program if _uses_axes(eqn) else None  # the same names may be other axes elsewhere
        key = eqn.primitive, self._keys.params(eqn), operands, scope
        return self._numbers.setdefault(key, len(self._numbers))

    def wiring(self, start: int, length: int) -> Hashable:
        """Return which operands of a window are results of the window."""
        return tuple(
            [
                self.reference(x, start)
                for eqn in self.eqns[start : start + length]
                if eqn is not None
                for x in eqn.inputs
            ]
        )

    def reference(self, x: Any, start: int) -> tuple[int, int] | None:
        """Return the equation of a window, and the result, that an operand is; None for what comes from outside."""
        if type(x) is Lit:
            return None
        i, r = self.made.get(x, (-1, 0))
        return (i - start, r) if i >= start else None

    def are_equal(self, literals: Sequence[Any]) -> bool:
        """Whether literals have the same value, to the bit."""
        return len({self._keys.literal(x) for x in literals}) == 1

    def _alike_next(self, starts: Sequence[int], length: int) -> bool:
        """Whether windows can be longer by one equation."""
        kinds = {self.kinds[s + length] for s in starts}
        if len(kinds) != 1 or UNIQUE in kinds:
            return False
        if any(b - a < length + 1 for a, b in pairwise(starts)):
            return False
        rows = {
            tuple([self.reference(x, s) for x in eqn.inputs])
            for s in starts
            if (eqn := self.eqns[s + length]) is not None
        }
        return len(rows) == 1

    def longest(self, starts: Sequence[int], length: int) -> int | None:
        """Return how long windows can be; None where it is twice the length or more."""
        for longer in range(length, 2 * length):
            if not self._alike_next(starts, longer):
                return longer
        return None


def _uses_axes(eqn: JaxprEqn) -> bool:
    inner = (_jaxpr_uses_axes(c.jaxpr) for c in sub_jaxprs(eqn))
    return bool(eqn.primitive.acts_along) or any(inner)


_jaxpr_uses_axes = any_equation("acts along named axes", _uses_axes)


def best_repeats(bodies: Bodies, size: int, saved: int) -> Iterator[Repeat]:
    """Yield repeats that do not overlap, of at least `size` equations and saving at least `saved` each; the largest gain first."""
    found = {r for r in _candidates(bodies) if r.length >= size and r.saved >= saved}
    heap = [(-r.saved, r.starts, r.length) for r in found]
    heapq.heapify(heap)
    taken = bytearray(len(bodies.eqns))
    while heap:
        _, starts, length = heapq.heappop(heap)
        free = tuple([s for s in starts if 1 not in taken[s : s + length]])
        repeat = Repeat(free, length)
        if repeat.saved < saved:
            continue
        if len(free) < len(starts):
            heapq.heappush(heap, (-repeat.saved, free, length))
            continue
        for s in free:
            taken[s : s + length] = b"\1" * length
        yield repeat


def _candidates(bodies: Bodies) -> Iterator[Repeat]:
    names, length = without_single(bodies.kinds), 1
    while names:
        groups: dict[int, list[int]] = {}
        for i, name in enumerate(names):
            if name != UNIQUE:
                starts = groups.setdefault(name, [])
                if not starts or i - starts[-1] >= length:
                    starts.append(i)
        for starts in groups.values():
            before = {bodies.kinds[s - 1] if s else UNIQUE for s in starts}
            if len(starts) > 1 and (len(before) > 1 or UNIQUE in before):
                yield from _agreeing(bodies, starts, length)
        names = doubled(names, length)
        length *= 2


def _agreeing(
    bodies: Bodies, starts: Sequence[int], length: int, cut: bool = True
) -> Iterator[Repeat]:
    """Yield the repeats among windows of the same kinds whose operands are wired in the same way.

    cut: whether, where no two are, the parts of the windows in which they might be are tried.
    """
    groups: dict[Hashable, list[int]] = {}
    for s in starts:
        groups.setdefault(bodies.wiring(s, length), []).append(s)
    several = [some for some in groups.values() if len(some) > 1]
    for some in several:
        longest = bodies.longest(some, length)
        if longest is not None:
            yield Repeat(tuple(some), longest)
    if cut and len(several) < len(groups):
        for first, end in _parts(bodies, starts, length):
            yield from _agreeing(bodies, [s + first for s in starts], end - first, cut=False)


def _parts(bodies: Bodies, starts: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """Yield the part of the windows before their operands are wired differently, and the one after what these come from."""
    first, behind = length, 0
    for j in range(length):
        rows = {
            tuple([bodies.reference(x, s) for x in eqn.inputs])
            for s in starts
            if (eqn := bodies.eqns[s + j]) is not None
        }
        if len(rows) > 1:
            first = min(first, j)
            columns = [column for column in zip(*rows, strict=True) if len({*column}) > 1]
            behind = max(behind, *[x[0] + 1 for column in columns for x in column if x is not None])
    if 0 < first < length:
        yield 0, first
    if 0 < behind < length:
        yield behind, length
