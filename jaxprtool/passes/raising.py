"""Some equations of a program in double precision (`passes.double` raises all of them)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import map_jaxprs
from jaxprtool.passes.double import Raised, conversion

__all__ = ["raise_some"]


def _converted(xs: Sequence[Any], avals: Sequence[Any]) -> tuple[list[JaxprEqn], list[Any]]:
    """Conversions of atoms to types, where they have others; and the atoms that come out."""
    eqns: list[JaxprEqn] = []
    outs: list[Any] = []
    for x, aval in zip(xs, avals, strict=True):
        if x.aval.strong == aval.strong:
            outs.append(x)
            continue
        v = Var(aval)
        eqns.append(conversion(x, v))
        outs.append(v)
    return eqns, outs


def raise_some(program: ClosedJaxpr, found: Raised, chosen: Collection[JaxprEqn]) -> ClosedJaxpr:
    """A program with some of its equations in double precision; what one of them hands to another stays so.

    Args:
      program: the program.
      found: what `raised` gives for it.
      chosen: equations of it, at any depth, without jaxprs in their params.
    """
    return _RaisingSome(found, chosen).closed(program)


class _RaisingSome:
    """One pass; results of the equations that are chosen have conversions where others read them."""

    def __init__(self, found: Raised, chosen: Collection[JaxprEqn]):
        self.found, self.chosen = found, chosen
        self.done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    @deep
    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        known = self.done.get(program)
        if known is None:
            known = self.done[program] = self.made(program)
        return known

    def made(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr, eqns = program.jaxpr, list[JaxprEqn]()
        wide: dict[Any, Var] = {}
        for eqn in jaxpr.eqns:
            if eqn in self.chosen and eqn in self.found.after:
                eqns += self.equation(eqn, wide)
                continue
            eqns += [conversion(wide.pop(x), x) for x in dict.fromkeys(eqn.inputs) if x in wide]
            params = {k: map_jaxprs(v, self.closed) for k, v in eqn.params.items()}
            same = all(params[k] is v for k, v in eqn.params.items())
            eqns.append(eqn if same else eqn.replace(params=params))
        eqns += [conversion(wide.pop(x), x) for x in dict.fromkeys(jaxpr.outs) if x in wide]
        return program.replace(jaxpr=jaxpr.replace(eqns=eqns))

    def equation(self, eqn: JaxprEqn, wide: dict[Any, Var]) -> list[JaxprEqn]:
        """The equation in double precision; its results are added to those that are so."""
        made = self.found.after[eqn]
        given = [wide.get(x, x) if type(x) is not Lit else x for x in eqn.inputs]
        before, ins = _converted(given, [x.aval for x in made.inputs])
        outs = [Var(v.aval) for v in made.out_binders]
        done = made.replace(inputs=ins, out_binders=outs)
        pairs = zip(eqn.out_binders, outs, strict=True)
        same = [(v, x) for v, x in pairs if v.aval.strong == x.aval.strong]
        wide.update(zip(eqn.out_binders, outs, strict=True))
        return [*before, done, *(conversion(wide.pop(v), v) for v, _ in same)]
