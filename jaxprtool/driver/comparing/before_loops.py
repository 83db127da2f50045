"""Find the first difference of two programs where one computes before a loop what the other computes in each step.

Loop-invariant equations of both programs are hoisted first (`passes.hoist`), so that they have counterparts. A difference
in a hoisted equation is reported where the equation stands in the program as written: in the first step of its loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jaxprtool.analyses.comparing.comparison import First
from jaxprtool.analyses.places import Place, Step
from jaxprtool.driver.comparing.inside_calls import like, ways_to
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from jaxprtool.passes.hoist import hoist

__all__ = ["BeforeLoops", "before_loops"]

_MOST = 100_000  # equations of a program whose loops are looked at


class BeforeLoops(NamedTuple):
    """Two programs with their loop-invariant equations hoisted.

    Attributes:
      programs: the programs as written.
      opened: the programs with these equations before their loops.
    """

    programs: tuple[ClosedJaxpr, ClosedJaxpr]
    opened: tuple[ClosedJaxpr, ClosedJaxpr]

    def as_written(self, first: First | None) -> First | None:
        """Return a difference that was found in the opened programs with its places in the programs as written."""
        if first is None:
            return None
        a, b = [
            _as_written(program, place) if isinstance(place, Place) else place
            for program, place in zip(self.programs, (first.a, first.b), strict=True)
        ]
        return replace(first, a=a, b=b)


def before_loops(a: ClosedJaxpr, b: ClosedJaxpr) -> BeforeLoops | None:
    """Return two programs with their loop-invariant equations hoisted.

    None where the same number of equations is hoisted in both, where one has no loops, and for programs of more than
    `_MOST` equations.
    """
    if any(count_eqns(p.jaxpr) > _MOST or not any(_loops(p.jaxpr)) for p in (a, b)):
        return None
    opened = hoist(a), hoist(b)
    moved = [_in_loops(p.jaxpr) - _in_loops(q.jaxpr) for p, q in zip((a, b), opened, strict=True)]
    if moved[0] == moved[1]:
        return None
    return BeforeLoops((a, b), opened)


def _loops(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Iterate over the loops of a jaxpr, at any depth."""
    return (e for e in all_eqns(jaxpr) if e.primitive.holds_jaxprs and _is_loop(e))


def _is_loop(eqn: JaxprEqn) -> bool:
    return any(run.turns or run.times > 1 for run in runs_of(eqn)) or "length" in eqn.params


def _in_loops(jaxpr: Jaxpr) -> int:
    """Count the equations in the bodies of loops; those of a nested loop count once for each loop around them."""
    return sum(count_eqns(c.jaxpr) for loop in _loops(jaxpr) for c in sub_jaxprs(loop))


def _as_written(program: ClosedJaxpr, place: Place) -> Place:
    """Return the place in the program as written of a place in its hoisted form; the same place where no equation matches."""
    for eqn, way in ways_to(program, place.eqn):
        path = _with_steps(way, place.path)
        if path is not None:
            return Place(eqn, path)
    return place


def _with_steps(way: Sequence[Step], path: Sequence[Step]) -> tuple[Step, ...] | None:
    """Return the steps to an equation of the program as written, with the branches and step numbers of a hoisted path.

    The hoisted path lacks the loops that the equation was moved out of: these are at step 0. None where the path is not
    `way` without some loops.
    """
    left = [*path]
    found: list[Step] = []
    for above in reversed(way):
        if left and like(above.eqn, left[-1].eqn):
            of = left.pop()
            found.append(above._replace(branch=of.branch, step=of.step))
        elif _is_loop(above.eqn):
            found.append(above._replace(step=0))
        else:
            return None
    return None if left else tuple(found[::-1])
