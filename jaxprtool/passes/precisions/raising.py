"""Compute some equations of a program in double precision (`passes.precisions.double` raises all of them)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.passes.precisions.double import (
    Raised,
    Raising,
    parts_between_conversions,
    wide_dtype,
)

__all__ = ["raise_some"]


@deep
def raise_some(program: ClosedJaxpr, found: Raised, chosen: Collection[JaxprEqn]) -> ClosedJaxpr:
    """Return a program with some of its equations in double precision.

    What one of these equations passes to another stays in double precision, also through the carry
    of a loop.

    Args:
      program: the program.
      found: what `raised` gives for it.
      chosen: equations of it, at any depth, without jaxprs in their params.

    Returns:
      A program that takes and gives double precision. Equations that are not chosen compute what
      they did, between conversions.
    """
    return _RaisingSome(found, chosen).scoped.closed(program)


class _RaisingSome(Raising):
    """One run over a program."""

    def __init__(self, all_raised: Raised, chosen: Collection[JaxprEqn]):
        super().__init__(Raised(), wide_dtype)
        self.all_raised, self.chosen = all_raised, chosen
        # For a raised variable the one of the original type that has the same value.
        self.own: dict[Any, Any] = {}
        self.conversions: set[JaxprEqn] = set()
        self._holding: dict[Jaxpr, bool] = {}

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        made = super().jaxpr(jaxpr)
        read = {x for eqn in made.eqns for x in eqn.inputs if isinstance(x, Var)} | {*made.outs}
        eqns = [
            e for e in made.eqns if e not in self.conversions or not read.isdisjoint(e.out_binders)
        ]
        return made.replace(eqns=eqns)

    def equation(
        self, eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]
    ) -> Sequence[JaxprEqn]:
        made = self.all_raised.after.get(eqn)
        # memory is wide in all equations that use it
        atoms = (*eqn.inputs, *eqn.out_binders)
        is_memory = made is not None and any(isinstance(x.aval, RefType) for x in atoms)
        if made is not None and (eqn in self.chosen or (is_memory and not sub_jaxprs(eqn))):
            return [made.replace(inputs=inputs, out_binders=outs)]
        if made is not None and (is_memory or self.holds_chosen(eqn)):
            return [eqn.replace(inputs=inputs, params=self.params(eqn), out_binders=outs)]
        return self.between_conversions(eqn, inputs, outs)

    def between_conversions(
        self, eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]
    ) -> list[JaxprEqn]:
        given = [self.own.get(x, x) for x in inputs]
        before, made, after = parts_between_conversions(eqn, given, outs)
        self.conversions.update(before, after)
        self.own.update((c.inputs[0], c.out_binders[0]) for c in before)
        self.own.update((c.out_binders[0], c.inputs[0]) for c in after)
        return [*before, made, *after]

    def holds_chosen(self, eqn: JaxprEqn) -> bool:
        """Whether an equation holds a chosen equation, at any depth."""
        for closed in sub_jaxprs(eqn):
            jaxpr = closed.jaxpr
            if jaxpr not in self._holding:
                eqns = jaxpr.eqns
                self._holding[jaxpr] = any(e in self.chosen or self.holds_chosen(e) for e in eqns)
            if self._holding[jaxpr]:
                return True
        return False
