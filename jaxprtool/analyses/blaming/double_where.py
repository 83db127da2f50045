"""Find the `where` whose untaken side makes a NaN in a derivative.

The derivative of `where(x > 0, log(x), 0)` is `where(x > 0, t, 0) / x`: at 0 it is 0 / 0, although
the `where` does not take that side. Its input needs a guard of its own:
`where(x > 0, log(where(x > 0, x, 1)), 0)`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxprtool.analyses.blaming.derived import (
    derivative_of,
    frame_of,
    has_names,
    is_derived,
    is_transposed,
)
from jaxprtool.analyses.blaming.plans import is_float
from jaxprtool.analyses.blaming.zeros import Zero, Zeros
from jaxprtool.analyses.identity.products import is_linear_in
from jaxprtool.analyses.levels import (
    Level,
    all_levels,
    definitions,
    is_choice,
    level_of,
    resolved,
    walk_before,
)
from jaxprtool.analyses.places import Place
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.ir.diagnostics import place_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit

__all__ = [
    "Unguarded",
    "goes_by_indices",
    "unguarded_of",
    "unguarded_on_way",
]

_CONSTANT = 20  # values that are visited to see whether one is constant


@dataclass
class Unguarded:
    """A choice between two values in a program whose derivative makes a bad value on the side that is not taken.

    Attributes:
      place: the choice; where the program does not hold it any more, its transpose, which has the
        same line of Python.
      kept: whether the program still holds the choice.
      certain: whether the names of the equations say that the program is a derivative; a text may
        have left them out.
    """

    place: Place
    kept: bool
    certain: bool = True

    def lines(self) -> list[str]:
        """What to do, for people."""
        what = "of" if self.kept else "of the choice whose transpose is"
        at = self.place.located()
        eqns = [self.place.eqn, *(step.eqn for step in reversed(self.place.path))]
        source = next(filter(None, map(place_of, eqns)), at)
        if_so = "" if self.certain else "if the program is a derivative, "
        return [
            f"  {if_so}the side that is not taken makes it, {what} {at}: {self.place}",
            f"  the `where` at {source} needs its input guarded as well: where(c, f(where(c, x, 1)), y)",
        ]

    def json(self) -> dict[str, Any]:
        """The place of the choice, and whether it is certain."""
        return {**self.place.json(), "certain": self.certain}


def unguarded_of(place: Place, zeros: Zeros, program: ClosedJaxpr) -> Unguarded | None:
    """Find the choice whose untaken side makes a NaN in a derivative; None where the NaN came about in another way.

    The cotangent, an operand that the operation is linear in, is 0 at the offending index. From
    there the search goes back to the transpose of the choice, which has put the 0 there. The choice
    itself has the same condition, and one of its cases is computed from what the other operands are
    computed from: that is what needs the guard. A mask that these operands are computed from is no
    such choice.

    Args:
      place: where the NaN begins, or a product in which it meets a 0.
      zeros: the operands that are 0 there.
      program: the program.
    """
    level, maybe = level_of(program, place.path), None
    for zero in zeros:
        i = zero.operand
        if not is_linear_in(place.eqn, i):
            continue
        others = [(level, y) for k, y in enumerate(place.eqn.inputs) if k != i]
        factors = _Ancestors(others)
        for found, where in _choices_before(level, place.eqn.inputs[i], zero=zero):
            if factors.holds(found, where):
                continue  # the choice comes before the operation: its zeros are data
            condition = resolved(where, found.inputs[0])
            for other, at in all_levels(program):
                if other is found:
                    break  # the transpose comes after the choice
                if not is_choice(other) or is_transposed(other, at):
                    continue
                if resolved(at, other.inputs[0]) != condition or isinstance(condition, Lit):
                    continue
                if not factors.holds(other, at) and _takes(other, at, others):
                    return Unguarded(Place(other, at.path()), kept=True)
            if is_transposed(found, where) and not _is_of_a_rule(found, where, program):
                return Unguarded(Place(found, where.path()), kept=False)
            if maybe is not None or not zero.alone or has_names(found):
                continue
            if _has_constant_case(found, where):
                maybe = Unguarded(Place(found, where.path()), kept=False, certain=False)
    return maybe


def _is_of_a_rule(choice: JaxprEqn, level: Level, program: ClosedJaxpr) -> bool:
    """Whether a transposed choice comes from the derivative rule of an operation on whole arrays, not from a choice of the program.

    The rules of a triangular solve and of a decomposition choose a triangle of the tangent.
    """
    frame = frame_of(choice, level)
    if frame is None:
        return False
    for found, at in all_levels(program):
        if is_elementwise(found.primitive) or is_choice(found) or found.primitive.holds_jaxprs:
            continue
        if is_transposed(found, at) or frame_of(found, at) != frame:
            continue
        if any(map(is_choice, derivative_of(found)[0])):
            return True
    return False


def unguarded_on_way(
    chain: Sequence[Place], masks: Sequence[Place], bad: Container[JaxprEqn], program: ClosedJaxpr
) -> Unguarded | None:
    """Find the choice that drops a bad value whose derivative is bad again; None where there is none.

    The untaken side is computed, sqrt(x) for a negative x say, and the choice drops it. Its
    derivative is NaN too, and is multiplied by a cotangent that the transpose of the same choice
    has made 0: 0 times NaN is NaN. What the transpose itself hands on bad is on the side that is
    taken, and does not count.

    Args:
      chain: the equations from where the value begins to a result that it reaches.
      masks: the equations that drop it elsewhere.
      bad: the equations whose results hold bad values.
      program: the program.
    """
    dropping: dict[Any, Place] = {}
    for place in masks:
        if is_choice(place.eqn):
            level = level_of(program, place.path)
            condition = resolved(level, place.eqn.inputs[0])
            if not is_transposed(place.eqn, level) and not isinstance(condition, Lit):
                dropping.setdefault(condition, place)
    seen = set[Any]()  # values before one place are not visited again before a later one
    for place in chain[1:] if dropping else ():
        level = level_of(program, place.path)
        for x in place.eqn.inputs:
            for found, where in _choices_before(level, x, seen=seen):
                mask = dropping.get(resolved(where, found.inputs[0]))
                if found in bad:
                    continue
                if mask is not None and _is_before(mask.eqn, found, program):
                    certain = is_derived(place.eqn, place.path)
                    return Unguarded(mask, kept=True, certain=certain)
    return None


def _is_before(eqn: JaxprEqn, other: JaxprEqn, program: ClosedJaxpr) -> bool:
    """Whether one equation comes before another, as the choice comes before its transpose."""
    first = next((e for e, _ in all_levels(program) if e is eqn or e is other), None)
    return first is eqn and eqn is not other


def goes_by_indices(choice: JaxprEqn, level: Level) -> bool:
    """Whether the condition of a choice depends on no argument or constant of the program."""
    before = walk_before([(level, choice.inputs[0])], through=True)
    ends = ((at, x) for at, x, eqn in before if eqn is None)
    return all(at.outside(x) is not None for at, x in ends)


def _has_constant_case(choice: JaxprEqn, level: Level) -> bool:
    """Whether one of the cases of a choice is the same in every run, as the 0 in the transpose of a choice is."""
    made = definitions(level.jaxpr)

    def is_constant(value: Any) -> bool:  # in a batch, the zero is broadcast once more
        queue = [value]
        for x in queue:
            if isinstance(x, Lit):
                continue
            if x not in made or len(queue) > _CONSTANT:
                return False
            queue += made[x][0].inputs
        return True

    return any(map(is_constant, choice.inputs[1:]))


class _Ancestors:
    """The variables and choices that some values are computed from, each in its jaxpr; they are searched when first asked for."""

    def __init__(self, values: Sequence[tuple[Level, Any]]):
        self._values = values

    @cached_property
    def _found(self) -> tuple[set[Any], set[Any]]:
        variables, choices = set[Any](), set[Any]()
        for level, x, eqn in walk_before(self._values, through=True):
            variables.add((level.key(), x))
            if eqn is not None and is_choice(eqn):
                choices.add((level.key(), eqn))
        return variables, choices

    def holds(self, choice: JaxprEqn, level: Level) -> bool:
        """Whether a choice is among them."""
        return (level.key(), choice) in self._found[1]

    def has(self, level: Level, x: Any) -> bool:
        """Whether a variable is among them."""
        return (level.key(), x) in self._found[0]


def _takes(choice: JaxprEqn, level: Level, values: Sequence[tuple[Level, Any]]) -> bool:
    """Whether the cases of a choice are computed from all that `values` are computed from, but for literals and constants."""
    cases = _Ancestors([(level, x) for x in choice.inputs[1:]])
    some = False
    for at, x, eqn in walk_before(values, through=True, until=cases.has):
        inside = cases.has(at, x)
        some = some or inside
        if not inside and eqn is None and x in at.jaxpr.in_binders and at.above is None:
            return False
    return some


def _choices_before(
    level: Level, x: Any, *, zero: Zero | None = None, seen: set[Any] | None = None
) -> Iterator[tuple[JaxprEqn, Level]]:
    """Yield the choices from which a value is computed, the nearest ones first.

    Args:
      level, x: the value, and the jaxpr that it is in.
      zero: for a value that is 0, what is known of where the 0s come from: variables that have
        given none are left out.
      seen: see `walk_before`.
    """
    nonzero = () if zero is None else zero.nonzero
    passed = () if zero is None else zero.passed

    def until(level: Level, v: Any) -> bool:
        return v in nonzero or not is_float(v.aval)  # cotangents do not come through integers

    mixed = None if zero is None else zero.mixed
    for at, v, eqn in walk_before([(level, x)], mixed=mixed, passed=passed, seen=seen, until=until):
        if eqn is not None and is_choice(eqn) and not until(at, v) and v not in passed:
            yield eqn, at
