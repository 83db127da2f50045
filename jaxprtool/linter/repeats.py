"""Lint rules of computations that are repeated, and of loops that were unrolled in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.interpreters.columns.communication import sends_rules
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.reuse.copies import copies_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.memo import Memo
from jaxprtool.linter.frames import Frame
from jaxprtool.linter.registry import Found, lint_rule
from jaxprtool.linter.runs import unrolled_runs

__all__ = ["copies_in", "is_collective", "repeated_computation", "unrolled_loop"]


@lint_rule(
    "repeated-computation",
    family="repeats",
    kind="jaxpr",
    mend="compute it once, and use the result twice",
    fix="cse",
)
def repeated_computation(frame: Frame) -> Iterator[Found]:
    """The same operation is applied twice to the same operands.

    XLA merges most of them, within one jaxpr and without effects. Tracing, differentiating (which
    keeps both results) and running outside of jit do not. Of several equations in a row the last
    one is reported. Operations that only move data, and those on scalars and indices, are not
    reported.
    """
    copies = {e: first for e, first in copies_in(frame.jaxpr).items() if not is_collective(e)}
    if not copies:
        return
    feeds = {x for eqn in copies for x in eqn.inputs}
    makers = {v: eqn for eqn in copies for v in eqn.out_binders}
    order = {eqn: i for i, eqn in enumerate(copies)}
    for eqn in copies:
        whole = _cone(eqn, makers)
        computing = [e for e in whole if _computes(e)]
        if not feeds.isdisjoint(eqn.out_binders) or not computing:
            continue
        told = max(computing, key=order.__getitem__)
        n = len(_cone(told, makers)) - 1
        more = f", with {counted(n, 'equation')} before it," if n else ""
        message = (
            f"this {told.primitive.name}{more} computes what {_where(copies[told])} has computed"
        )
        yield Found(message, frame.place(told), related=(frame.place(copies[told]),))


_COPIES = Memo[dict[JaxprEqn, JaxprEqn]]("equations that repeat earlier ones")


def copies_in(jaxpr: Jaxpr) -> dict[JaxprEqn, JaxprEqn]:
    """Return the equations of a jaxpr that repeat an earlier one -> the first equal equation."""
    return _COPIES.of(jaxpr, lambda: copies_of(jaxpr.eqns).first)


def is_collective(eqn: JaxprEqn) -> bool:
    """Whether an equation sends values between devices."""
    return sends_rules.find(eqn.primitive) is not None


def _cone(eqn: JaxprEqn, makers: dict[Any, JaxprEqn]) -> list[JaxprEqn]:
    """Return a repeated equation, and the repeated equations that its operands come from."""
    found = {eqn: None}
    pending = [eqn]
    while pending:
        for x in pending.pop().inputs:
            above = makers.get(x)
            if above is not None and above not in found:
                found[above] = None
                pending.append(above)
    return [*found]


_OWN = ("computed", "placed", "ordered")


def _computes(eqn: JaxprEqn) -> bool:
    """Whether an equation computes with arrays of floats or complex numbers.

    JAX itself repeats computations with indices and sizes.
    """
    if elements_facts[eqn.primitive] not in _OWN or all(type(x) is Lit for x in eqn.inputs):
        return False  # it only moves data, or its operands are literals
    avals = [x.aval for x in (*eqn.inputs, *eqn.out_binders) if isinstance(x.aval, ShapedArray)]
    return any(a.size != 1 and a.dtype.is_inexact for a in avals)


def _where(eqn: JaxprEqn) -> str:
    if eqn.span is None:
        return "an earlier one"
    return f"line {eqn.span.source.position(eqn.span.start)[0]}"


@lint_rule(
    "unrolled-loop",
    family="repeats",
    kind="jaxpr",
    mend="write it with jax.lax.scan or fori_loop over stacked inputs",
)
def unrolled_loop(frame: Frame) -> Iterator[Found]:
    """The same equations are repeated many times, each time on the results of the time before: a
    Python loop.

    The time for tracing, each transformation and compiling grows with the number of iterations; a
    scan has its body once. A loop is reported if it has at least eight iterations, three equations
    in each, and 32 equations in all. `opt --passes roll` makes a scan of it.
    """
    for run in unrolled_runs(frame.jaxpr.eqns):
        message = f"a turn of {counted(run.period, 'equation')} is repeated {run.turns} times: a loop that was unrolled"
        yield Found(message, frame.place(frame.jaxpr.eqns[run.start]))
