"""Units, `*`: values without content that releases to 0.3.9 pass around (tangents of integers, say).

They are removed while a text is read (`building.units`). What was removed is recorded with the
program, so that the text of one that nobody has changed has them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxprtool.ir.avals import OpaqueType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Params
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.primitive import ReadParams
from jaxprtool.ir.walk import with_read_jaxprs
from jaxprtool.syntax.releases.spellings import Release

__all__ = ["NO_UNITS", "UNIT", "Removed", "RemovedOfEquation", "removed", "with_units"]

NO_UNITS: Release = (0, 3, 10)  # since then there are none
UNIT = Lit(None, OpaqueType("*"))
T = TypeVar("T")
Places = Sequence[tuple[int, Any]]  # the positions of the units among what there was, and they


class RemovedOfEquation(NamedTuple):
    """What was removed from an equation.

    Attributes:
      inputs, outs: its operands and results.
      params: the params that had entries or counts for them, as they were.
      read: all params as they were read, where the text had others.
    """

    inputs: Places
    outs: Places
    params: dict[str, Any]
    read: ReadParams | None


class Removed(NamedTuple):
    """What was removed from a jaxpr.

    Attributes:
      binders, eqns, outs: its arguments, equations and results.
      left: the equations that stayed.
    """

    binders: Places
    eqns: Places
    outs: Places
    left: tuple[JaxprEqn, ...]


class RemovedOfProgram(NamedTuple):
    """What was removed from a program: from its jaxprs, and from the equations in them."""

    jaxprs: dict[Jaxpr, Removed]
    eqns: dict[JaxprEqn, RemovedOfEquation]


removed = Memo[RemovedOfProgram]("units of the text")


def with_units(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with the units that its text has; `check` does not accept it.

    The same object where there are none, or where the program was changed since it was read.
    """
    found = removed.find(program.jaxpr)
    if found is None or any(j.eqns != was.left for j, was in found.jaxprs.items()):
        return program
    return _Restoring(found).closed(program)


class _Restoring:
    """Restores the units of one program."""

    def __init__(self, found: RemovedOfProgram):
        self.found = found
        self.done: dict[Jaxpr, Jaxpr] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        if jaxpr not in self.done:
            self.done[jaxpr] = self.jaxpr(jaxpr)
        new = self.done[jaxpr]
        return closed if new is jaxpr else closed.replace(jaxpr=new)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        was = self.found.jaxprs.get(jaxpr)
        if was is None:
            return jaxpr
        eqns = [self.equation(e) for e in _woven(jaxpr.eqns, was.eqns)]
        binders, outs = _woven(jaxpr.in_binders, was.binders), _woven(jaxpr.outs, was.outs)
        return jaxpr.replace(in_binders=binders, eqns=eqns, outs=outs, written=jaxpr.written)

    def equation(self, eqn: JaxprEqn) -> JaxprEqn:
        was = self.found.eqns.get(eqn)
        if was is None:
            return with_read_jaxprs(eqn, self.closed)
        ins, outs = _woven(eqn.inputs, was.inputs), _woven(eqn.out_binders, was.outs)
        params = {**eqn.params, **was.params}
        given = Params(params) if was.read is None else ReadParams(params, was.read.was)
        whole = eqn.replace(inputs=ins, out_binders=outs, params=given)
        return with_read_jaxprs(whole, self.closed)


def _woven(left: Iterable[T], places: Places) -> list[T]:
    """Return values with others at the positions where these were."""
    found = [*left]
    for i, x in places:
        found.insert(i, x)
    return found
