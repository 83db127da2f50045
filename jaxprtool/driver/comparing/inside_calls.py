"""Find where two programs differ if one has calls in the place of equations of the other: inside of these calls.

Both run with all calls inlined, so that the equations of the calls have counterparts; the finding
is then mapped back to the programs as written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jaxprtool.analyses.comparing.comparison import First, Written
from jaxprtool.analyses.comparing.counterparts import same_operation
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.analyses.places import Place, Step
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from jaxprtool.passes.inline import called, inlined
from jaxprtool.passes.once import runs_once

__all__ = ["Opened", "is_same", "like", "opened_calls", "ways", "ways_to", "with_steps"]

_MOST = 100_000  # equations of a program whose calls are opened


class Opened(NamedTuple):
    """Two programs, and the same with all calls inlined.

    Attributes:
      programs: the programs as written.
      opened: the programs without calls.
      once: whether a program has effects, so that it may run only once.
    """

    programs: tuple[ClosedJaxpr, ClosedJaxpr]
    opened: tuple[ClosedJaxpr, ClosedJaxpr]
    once: bool

    def as_written(self, first: First | None) -> First | None:
        """Map a finding in the opened programs, or in a part of their equations, to the programs as written."""
        if first is None:
            return None
        sides = zip(self.programs, self.opened, (first.a, first.b), strict=True)
        a, b = _of_literals(first, *[_as_written(*side) for side in sides])
        p, q = [Counter(_primitives(x.jaxpr)) for x in self.opened]
        exchanged = _is_one_of(a, p - q) and _is_one_of(b, q - p)
        of_a, of_b = [_of_whole_call(*x, exchanged) for x in ((a, p - q), (b, q - p))]
        if of_a is not a and of_b is b:
            of_b = _beside(of_a, b)
        elif of_b is not b and of_a is a:
            of_a = _beside(of_b, a)
        return replace(first, a=of_a, b=of_b)


def opened_calls(a: ClosedJaxpr, b: ClosedJaxpr) -> Opened | None:
    """Return two programs with calls inlined; None where both have the same calls, or are large."""
    if _calls(a.jaxpr) == _calls(b.jaxpr) or any(count_eqns(p.jaxpr) > _MOST for p in (a, b)):
        return None
    opened = inlined(a, size=_MOST), inlined(b, size=_MOST)
    return Opened((a, b), opened, runs_once(a) or runs_once(b))


Calls = Counter[tuple[Primitive, object]]


@deep
def _calls(jaxpr: Jaxpr, known: dict[Jaxpr, Calls] | None = None) -> Calls:
    """Count the calls of each name in a jaxpr, at any depth; those of an inner jaxpr count once for each use."""
    known = {} if known is None else known
    if jaxpr in known:
        return known[jaxpr]
    found = known[jaxpr] = Calls()
    for eqn in jaxpr.eqns:
        if eqn.primitive.holds_jaxprs:
            if called(eqn) is not None:
                found[eqn.primitive, eqn.params.get("name")] += 1
            for closed in sub_jaxprs(eqn):
                found.update(_calls(closed.jaxpr, known))
    return found


def _of_literals(first: First, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the calls around two places that differ only in literals passed to the calls; else the places."""
    signatures = Signatures()
    opened = [x.eqn for x in (first.a, first.b) if isinstance(x, Place)]
    if len(opened) < 2 or _same(opened[0], opened[1], signatures):
        return a, b
    while a.path and b.path and _same(a.eqn, b.eqn, signatures):
        above = a.path[-1].eqn, b.path[-1].eqn
        if any(called(eqn) is None for eqn in above):
            break
        a, b = [Place(eqn, x.path[:-1]) for eqn, x in zip(above, (a, b), strict=True)]
    return a, b


def _same(a: JaxprEqn, b: JaxprEqn, signatures: Signatures) -> bool:
    return len(a.inputs) == len(b.inputs) and same_operation(a, b, signatures)


def _primitives(jaxpr: Jaxpr) -> Iterator[Primitive]:
    """Yield the primitives of the equations of a jaxpr, at any depth, except calls."""
    return (e.primitive for e in all_eqns(jaxpr) if called(e) is None)


def _is_one_of(place: Place | Written | None, missing: Counter[Primitive]) -> bool:
    """Whether the other side has fewer equations of the operation at a place."""
    return isinstance(place, Place) and place.eqn.primitive in missing


def _of_whole_call(
    place: Place | Written | None, missing: Counter[Primitive], exchanged: bool
) -> Any:
    """Return the call around a place if the other side lacks all of its equations, and so the call; else the place.

    A call of one equation is not missing if that equation was exchanged for another one, which is missing on this side.
    """
    if isinstance(place, Place):
        for n, step in enumerate(place.path):
            closed = called(step.eqn)
            held = Counter[Primitive]() if closed is None else Counter(_primitives(closed.jaxpr))
            if held and held <= missing and not (exchanged and held.total() == 1):
                return Place(step.eqn, place.path[:n])
    return place


def _beside(missing: Place, place: Place | Written | None) -> Any:
    """Return the call around a place at the depth of a call that is missing there; the place where there is none."""
    depth = len(missing.path)
    if isinstance(place, Place) and len(place.path) > depth:
        step = place.path[depth]
        if called(step.eqn) is not None:
            return Place(step.eqn, place.path[:depth])
    return place


def _as_written(
    program: ClosedJaxpr, opened: ClosedJaxpr, place: Place | Written | None
) -> Place | Written | None:
    """Map a place in a program with calls inlined to the program: both have the same equations in the same order."""
    if not isinstance(place, Place):
        return place
    here, others = [*ways_to(program, place.eqn)], [*ways_to(opened, place.eqn)]
    if len(here) != len(others):
        return place
    k = next((k for k, (eqn, _) in enumerate(others) if is_same(eqn, place.eqn)), None)
    if k is None:
        return place
    eqn, way = here[k]
    return Place(eqn, with_steps(way, place.path, lambda above: called(above) is not None))


def with_steps(
    way: Sequence[Step], path: Sequence[Step], opened: Callable[[JaxprEqn], bool]
) -> tuple[Step, ...]:
    """Return a path in a program, with branches and steps taken from the path in the expanded program.

    The latter lacks the equations for which `opened` holds.
    """
    inside = iter(path)
    found: list[Step] = []
    for above in way:
        of = None if opened(above.eqn) else next(inside)
        found.append(above if of is None else above._replace(branch=of.branch, step=of.step))
    return tuple(found)


def is_same(eqn: JaxprEqn, other: JaxprEqn) -> bool:
    """Whether two equations are the same one, perhaps with other operands, or fewer results."""
    return eqn is other or any(v is w for v in eqn.out_binders for w in other.out_binders)


def like(eqn: JaxprEqn, other: JaxprEqn) -> bool:
    """Whether an equation may have been derived from another one."""
    return eqn.primitive is other.primitive and eqn.span == other.span


def ways(
    closed: ClosedJaxpr, path: tuple[Step, ...] = ()
) -> Iterator[tuple[JaxprEqn, tuple[Step, ...]]]:
    """Iterate over the equations of a program, at any depth and in order, each with its path."""
    for eqn in closed.eqns:
        yield eqn, path
        for run in runs_of(eqn) if eqn.primitive.holds_jaxprs else ():
            yield from ways(run.jaxpr, (*path, Step(eqn, run.param, run.branch)))


def ways_to(closed: ClosedJaxpr, wanted: JaxprEqn) -> Iterator[tuple[JaxprEqn, tuple[Step, ...]]]:
    """Iterate over the equations from which one may have been derived, each with its path."""
    return ((eqn, path) for eqn, path in ways(closed) if like(eqn, wanted))
