"""Where two programs differ of which one computes in each step of a loop what the other computes once, before it.

Both are run with all that is the same in each step before the loops, so that it has counterparts, and what is found is told where
it stands in the programs as they are: in the first step of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jaxprtool.analyses.comparing.comparison import First
from jaxprtool.analyses.places import Place, Step
from jaxprtool.driver.comparing.inside_calls import like
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from jaxprtool.passes.hoist import hoist

__all__ = ["BeforeLoops", "before_loops"]

_MOST = 100_000  # equations of a program whose loops are looked at


class BeforeLoops(NamedTuple):
    """Two programs with what is the same in each step of a loop before it.

    Attributes:
      programs: the programs as they are; opened: with these equations moved.
    """

    programs: tuple[ClosedJaxpr, ClosedJaxpr]
    opened: tuple[ClosedJaxpr, ClosedJaxpr]

    def as_written(self, first: First | None) -> First | None:
        """What was found in the opened programs, where it stands in the programs as they are."""
        if first is None:
            return None
        a, b = [
            _as_written(program, place) if isinstance(place, Place) else place
            for program, place in zip(self.programs, (first.a, first.b), strict=True)
        ]
        return replace(first, a=a, b=b)


def before_loops(a: ClosedJaxpr, b: ClosedJaxpr) -> BeforeLoops | None:
    """Two programs with what is the same in each step before the loops.

    None where as many equations of both are, and for large ones.
    """
    if any(count_eqns(p.jaxpr) > _MOST or not any(_loops(p.jaxpr)) for p in (a, b)):
        return None
    opened = hoist(a), hoist(b)
    moved = [_in_loops(p.jaxpr) - _in_loops(q.jaxpr) for p, q in zip((a, b), opened, strict=True)]
    if moved[0] == moved[1]:
        return None
    return BeforeLoops((a, b), opened)


def _loops(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The loops of a jaxpr, at any depth."""
    return (e for e in all_eqns(jaxpr) if e.primitive.holds_jaxprs and _is_loop(e))


def _is_loop(eqn: JaxprEqn) -> bool:
    return any(run.turns or run.times > 1 for run in runs_of(eqn)) or "length" in eqn.params


def _in_loops(jaxpr: Jaxpr) -> int:
    """How many equations are in the jaxprs of loops, those of a loop in a loop once for each of them."""
    return sum(count_eqns(c.jaxpr) for loop in _loops(jaxpr) for c in sub_jaxprs(loop))


def _as_written(program: ClosedJaxpr, place: Place) -> Place:
    """The place in a program of one that was found in it with equations before its loops; the same where it is none of them."""
    for eqn, way in _ways(program, place.eqn, ()):
        path = _with_steps(way, place.path)
        if path is not None:
            return Place(eqn, path)
    return place


def _with_steps(way: Sequence[Step], path: Sequence[Step]) -> tuple[Step, ...] | None:
    """A way into a program with the branches and steps of a path that is without some loops of it; None where it is another way."""
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


def _ways(
    closed: ClosedJaxpr, wanted: JaxprEqn, path: tuple[Step, ...]
) -> Iterator[tuple[JaxprEqn, tuple[Step, ...]]]:
    """The equations of a program of which one may have been made, in order, each with the way to it."""
    for eqn in closed.eqns:
        if like(eqn, wanted):
            yield eqn, path
        for run in runs_of(eqn) if eqn.primitive.holds_jaxprs else ():
            yield from _ways(run.jaxpr, wanted, (*path, Step(eqn, run.param, run.branch)))
