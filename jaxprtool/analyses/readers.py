"""Which equations read the results of others, also through calls, branches and the carries of loops."""

from __future__ import annotations

from typing import Any

from jaxprtool.analyses.passing import arguments_of, carried
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns

__all__ = ["Readers"]


class Readers:
    """The equations of a program that read the results of others, without those that run jaxprs, which only pass them on."""

    def __init__(self, jaxpr: Jaxpr):
        self._by_var: dict[Any, list[JaxprEqn]] = {}
        # For a variable, those that its value is passed to: inner arguments, outer results, arguments of the next iteration.
        self._passed: dict[Any, list[Var]] = {}
        for eqn in all_eqns(jaxpr):
            runs = runs_of(eqn)
            for run in runs:
                inner = run.jaxpr.jaxpr
                for x, k in zip(eqn.inputs, arguments_of(inner, eqn), strict=True):
                    if k is not None:
                        self._pass(x, inner.in_binders[k])
                if len(inner.outs) == len(eqn.out_binders):
                    for x, v in zip(inner.outs, eqn.out_binders, strict=True):
                        self._pass(x, v)
                for j, k in carried(eqn, run):
                    self._pass(inner.outs[j], inner.in_binders[k])
            for x in () if runs else eqn.inputs:
                if type(x) is not Lit:
                    self._by_var.setdefault(x, []).append(eqn)

    def _pass(self, x: Any, v: Var) -> None:
        if type(x) is not Lit:
            self._passed.setdefault(x, []).append(v)

    def of(self, eqn: JaxprEqn) -> list[JaxprEqn]:
        """Return the equations that read a result of an equation, the nearest ones first."""
        seen: dict[Any, None] = dict.fromkeys(eqn.out_binders)
        queue = [*seen]
        for x in queue:
            new = [v for v in self._passed.get(x, ()) if v not in seen]
            seen.update(dict.fromkeys(new))
            queue += new
        return [*dict.fromkeys(e for x in queue for e in self._by_var.get(x, ()))]
