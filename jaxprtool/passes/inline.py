"""inline: the equations of calls in the place of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.makers.calls import CallImpl

__all__ = ["called", "inline"]


def called(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The jaxpr whose results for the operands of an equation are those of the equation; None where there is none."""
    rule = impl_rules.find(eqn.primitive)
    if not isinstance(rule, CallImpl):
        return None
    inner: ClosedJaxpr = eqn.params[rule.param]
    return inner if len(inner.jaxpr.in_binders) == len(eqn.inputs) else None


@deep
def inline(program: ClosedJaxpr) -> ClosedJaxpr:
    """A program with the equations of each call (`jit`, `remat`, `custom_jvp_call`, ...) in its place, at any depth of calls.

    Derivative rules of functions, and what says how a call is compiled, are lost; results are the same. Jaxprs in params of
    other equations stay as they are. A jaxpr that is called several times is there as often.
    """
    if not any(called(eqn) for eqn in program.eqns):
        return program
    inlining = _Inlining()
    ins = [*program.jaxpr.in_binders]
    outs = inlining.run(program, ins)
    binders = [v for v, _ in inlining.consts]
    jaxpr = Jaxpr(ins, inlining.eqns, outs, binders, program.jaxpr.span)
    return program.replace(jaxpr=jaxpr, consts=[c for _, c in inlining.consts])


class _Inlining:
    """The equations and the constants so far."""

    def __init__(self) -> None:
        self.eqns: list[JaxprEqn] = []
        self.consts: list[tuple[Var, Any]] = []

    def run(self, program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """Take in the equations of a program, for atoms that stand for its arguments; returns the atoms of its results."""
        jaxpr = program.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.in_binders, args, strict=True))
        for v, c in zip(jaxpr.const_binders, program.consts, strict=True):
            env[v] = Var(v.aval, v.name, v.span)
            self.consts.append((env[v], c))
        for eqn in jaxpr.eqns:
            ins = [x if type(x) is Lit else env[x] for x in eqn.inputs]
            inner = called(eqn)
            if inner is not None:
                outs = self.run(inner, ins)
            else:
                outs = [Var(v.aval, v.name, v.span) for v in eqn.out_binders]
                self.eqns.append(eqn.replace(inputs=ins, out_binders=outs))
            env.update(zip(eqn.out_binders, outs, strict=True))
        return [x if type(x) is Lit else env[x] for x in jaxpr.outs]
