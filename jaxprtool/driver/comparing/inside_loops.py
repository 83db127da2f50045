"""Find where two programs differ if one has loops that the other has unrolled: inside of these loops.

Both run with all loops of known length unrolled, so that the equations of each step have
counterparts; the finding is then mapped back to the programs as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jaxprtool.analyses.comparing.comparison import First, Written
from jaxprtool.analyses.places import Place, Step
from jaxprtool.driver.comparing.inside_calls import is_same, like, ways, with_steps
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.passes.once import runs_once
from jaxprtool.passes.unroll import unroll

__all__ = ["WrittenOut", "written_out_loops"]

_STEPS = 200  # of a loop that is written out
_MOST = 20_000  # equations of a program with its loops written out


class WrittenOut(NamedTuple):
    """Two programs, and the same with loops unrolled.

    Attributes:
      programs: the programs as written.
      opened: the programs without loops.
      once: whether a program has effects, so that it runs only once.
    """

    programs: tuple[ClosedJaxpr, ClosedJaxpr]
    opened: tuple[ClosedJaxpr, ClosedJaxpr]
    once: bool

    def as_written(self, first: First | None) -> First | None:
        """Map a finding in the opened programs to the programs as written; None where it has no place there."""
        if first is None:
            return None
        found: list[Place] = []
        for program, opened, place in zip(
            self.programs, self.opened, (first.a, first.b), strict=True
        ):
            if not isinstance(place, Place):
                return None
            there = _as_written(program, opened, place)
            if there is None:
                return None
            found.append(there)
        return replace(first, a=found[0], b=found[1])

    def near(self, first: First | None) -> First | None:
        """Do as `as_written`; for a place that only the unrolled programs have, return the loop that was unrolled."""
        found = self.as_written(first)
        if first is None or found is not None:
            return found
        sides = zip(self.programs, self.opened, (first.a, first.b), strict=True)
        a, b = [_near(program, opened, place) for program, opened, place in sides]
        return replace(first, a=a, b=b)


def written_out_loops(a: ClosedJaxpr, b: ClosedJaxpr) -> WrittenOut | None:
    """Return two programs with loops of known length unrolled; None where they have the same number of such loops, or long ones."""
    counts = _loops(a.jaxpr), _loops(b.jaxpr)
    if counts[0] == counts[1] or any(_size(p.jaxpr) > _MOST for p in (a, b)):
        return None
    opened = tuple(unroll(p, steps=_STEPS, size=_MOST) for p in (a, b))
    if _loops(opened[0].jaxpr) != _loops(opened[1].jaxpr):  # those without steps stay
        return None
    return WrittenOut((a, b), (opened[0], opened[1]), runs_once(a) or runs_once(b))


def _turns(eqn: JaxprEqn) -> range | None:
    """Return the steps of a loop of known length, in order; None for another equation."""
    length = eqn.params.get("length")
    if not isinstance(length, int) or "num_carry" not in eqn.params:
        return None
    return range(length)[:: -1 if eqn.params.get("reverse") else 1]


def _loops(jaxpr: Jaxpr) -> int:
    """Count the loops of known length in a jaxpr, at any depth; those of an inner jaxpr count once."""
    return sum(_turns(e) is not None for e in all_eqns(jaxpr) if e.primitive.holds_jaxprs)


def _size(jaxpr: Jaxpr) -> int:
    """Count the equations of a jaxpr with its loops of known length unrolled; other inner jaxprs count once."""
    total = 0
    for eqn in jaxpr.eqns:
        total += 1
        if eqn.primitive.holds_jaxprs:
            turns = _turns(eqn)
            times = 1 if turns is None else len(turns)
            total += times * sum(_size(c.jaxpr) for c in sub_jaxprs(eqn))
        if total > _MOST:
            break
    return total


def _as_written(program: ClosedJaxpr, opened: ClosedJaxpr, place: Place) -> Place | None:
    """Map a place in a program with loops unrolled to the program; None where it exists only there."""
    here, others = [*_ways(program, place.eqn, ())], [*_ways(opened, place.eqn, ())]
    if len(here) != len(others):
        return None
    for (eqn, way), (other, _) in zip(here, others, strict=True):
        if is_same(other, place.eqn):
            path = with_steps(way, place.path, lambda above: _turns(above) is not None)
            return Place(eqn, path)
    return None


def _near(
    program: ClosedJaxpr, opened: ClosedJaxpr, place: Place | Written | None
) -> Place | Written | None:
    """Return the place in a program of a place in its unrolled form; the loop where only the unrolled form has the place."""
    if not isinstance(place, Place):
        return place
    return _as_written(program, opened, place) or _loop_of(program, place)


def _loop_of(program: ClosedJaxpr, place: Place) -> Place:
    """Return the loop that an equation of the unrolled form comes from; the equation itself where there is none."""
    there = place.eqn.span
    for eqn, way in ways(program) if there is not None else ():
        if eqn.span == there and _turns(eqn) is not None:
            return Place(eqn, way)
    return place


def _ways(
    closed: ClosedJaxpr, wanted: JaxprEqn, path: tuple[Step, ...]
) -> Iterator[tuple[JaxprEqn, tuple[Step, ...]]]:
    """Yield the equations of a program from which one may have been derived, once for each step, in
    order, each with its path.
    """
    for eqn in closed.eqns:
        if like(eqn, wanted):
            yield eqn, path
        for run in runs_of(eqn) if eqn.primitive.holds_jaxprs else ():
            steps = _turns(eqn)
            for step in (None,) if steps is None else steps:
                way = Step(eqn, run.param, run.branch)
                way = way if step is None else way._replace(step=step)
                yield from _ways(run.jaxpr, wanted, (*path, way))
