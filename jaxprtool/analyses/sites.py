"""Map the equations that evaluation runs in the place of others back to those that are written."""

from __future__ import annotations

from typing import Any, TypeVar

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns

__all__ = ["Sites"]

P = TypeVar("P", bound=Any)

Written = tuple[dict[tuple[int, int], list[JaxprEqn]], set[JaxprEqn]]


def _written(program: Jaxpr) -> Written:
    """Return the equations of a program by their place in its text, and all of them."""
    at: dict[tuple[int, int], list[JaxprEqn]] = {}
    every: set[JaxprEqn] = set()
    for eqn in all_eqns(program):
        every.add(eqn)
        if eqn.span is not None:
            at.setdefault((id(eqn.span.source), eqn.span.start), []).append(eqn)
    return at, every


_WRITTEN = Memo[Written]("equations by where they are written")


def _difference(eqn: JaxprEqn, other: JaxprEqn) -> tuple[bool, bool]:
    """Return how much an equation differs from one with the same place in the text: whether in the primitive, and in result types."""
    dtypes = [[getattr(v.aval, "dtype", None) for v in e.out_binders] for e in (eqn, other)]
    return eqn.primitive is not other.primitive, dtypes[0] != dtypes[1]


class Sites:
    """The equations of a program by their place in its text.

    Evaluation may run other equations in their place: inside of a shard_map those that are batched
    over the devices.
    """

    def __init__(self, program: ClosedJaxpr | Jaxpr):
        jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
        self._eqns, self._all = _WRITTEN.of(jaxpr, lambda: _written(jaxpr))

    def written(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the written equation in whose place an equation runs; mostly itself."""
        if eqn in self._all or eqn.span is None:
            return eqn
        there = self._eqns.get((id(eqn.span.source), eqn.span.start), [eqn])
        if len(there) == 1:
            return there[0]
        return min(there, key=lambda other: _difference(eqn, other))

    def of(self, place: P) -> P:
        """Return a `Place` with the equations as they are written."""
        path = place.path
        if path:
            path = tuple([step._replace(eqn=self.written(step.eqn)) for step in path])
        elif place.eqn in self._all:
            return place
        return place._replace(eqn=self.written(place.eqn), path=path)

    def place(self, place: P | None) -> P | None:
        """As `of`; None for None."""
        return None if place is None else self.of(place)
