"""The equations of a program as they are written, for those that evaluation runs in their place."""

from __future__ import annotations

from typing import overload

from jaxprtool.analyses.places import Place
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns

__all__ = ["Sites"]


Written = tuple[dict[tuple[int, int], JaxprEqn], set[JaxprEqn]]


def _written(program: ClosedJaxpr) -> Written:
    """The equations of a program by where they are in its text, and all of them."""
    at: dict[tuple[int, int], JaxprEqn] = {}
    every: set[JaxprEqn] = set()
    for eqn in all_eqns(program.jaxpr):
        every.add(eqn)
        if eqn.span is not None:
            at[id(eqn.span.source), eqn.span.start] = eqn
    return at, every


_WRITTEN = Memo[Written]("equations by where they are written")


class Sites:
    """The equations of a program by where they are written.

    Evaluation may run other equations in their place: inside of a shard_map those that are batched over the devices.
    """

    def __init__(self, program: ClosedJaxpr):
        self._eqns, self._all = _WRITTEN.of(program, lambda: _written(program))

    def written(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation of the program in whose place an equation runs; mostly itself."""
        if eqn in self._all or eqn.span is None:
            return eqn
        return self._eqns.get((id(eqn.span.source), eqn.span.start), eqn)

    def of(self, place: Place) -> Place:
        """A place, with the equations as they are written."""
        path = place.path
        if path:
            path = tuple([step._replace(eqn=self.written(step.eqn)) for step in path])
        elif place.eqn in self._all:
            return place
        return Place(self.written(place.eqn), path)

    @overload
    def place(self, place: Place) -> Place: ...
    @overload
    def place(self, place: None) -> None: ...
    def place(self, place: Place | None) -> Place | None:
        """As `of`; None for None."""
        return None if place is None else self.of(place)
