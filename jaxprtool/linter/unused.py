"""Lint rules of equations and arguments that are not used."""

from __future__ import annotations

from collections.abc import Iterator

from jaxprtool.analyses.counting.stats import dead_equations
from jaxprtool.ir.diagnostics import counted
from jaxprtool.linter.engine import View
from jaxprtool.linter.frames import Frame, is_derived
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["dead_equation", "unused_argument"]


@lint_rule(
    "dead-equation",
    family="unused",
    kind="jaxpr",
    mend="take it out of the function",
    fix="dce",
)
def dead_equation(frame: Frame) -> Iterator[Found]:
    """The results of an equation are not used, and it has no effects.

    XLA removes it, but it is traced, transformed and lowered each time; and often it is a mistake:
    a result that was meant to be used. Of a chain of such equations the last one is reported.
    Equations that differentiation has left over, according to their scopes, are not reported.
    """
    dead = [eqn for eqn in dead_equations(frame.jaxpr) if not is_derived(eqn)]
    if not dead:
        return
    needed: dict[object, int] = {}  # how many equations only this one needs
    read = {x for eqn in dead for x in eqn.inputs}
    makers = {v: eqn for eqn in dead for v in eqn.out_binders}
    for eqn in dead:
        above = {makers[x] for x in eqn.inputs if x in makers}
        needed[eqn] = sum(needed[e] + 1 for e in above)
        if read.isdisjoint(eqn.out_binders):
            more = (
                f", nor those of {counted(needed[eqn], 'equation')} before it"
                if needed[eqn]
                else ""
            )
            message = f"nobody reads the results of this {eqn.primitive.name}{more}"
            yield Found(message, frame.place(eqn))


@lint_rule(
    "unused-argument",
    family="unused",
    kind="program",
    mend="take it out of the function, or give it as None",
)
def unused_argument(view: View) -> Iterator[Found]:
    """An argument of the program is not used.

    The caller passes it in vain. jit drops it from the compiled program (unless keep_unused is
    set), but a change of its type still causes another trace.
    """
    jaxpr = view.program.jaxpr
    read = set(jaxpr.outs).union(*[eqn.inputs for eqn in jaxpr.eqns])
    for v, label in zip(jaxpr.in_binders, view.arguments, strict=True):
        if v not in read:
            yield Found(f"nothing reads {label}", var=v, label=label)
