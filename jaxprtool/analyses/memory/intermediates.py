"""Bound the memory that the intermediate results of a program take at one time, without running it.

Values are freed after their last use, and the body of a loop counts once, so the number is an upper
bound.
"""

from __future__ import annotations

from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["check_memory"]


def _nbytes(x: Value) -> int:
    return getattr(x.aval, "nbytes", 0)


def _last_uses(jaxpr: Jaxpr) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        last.update((v, i) for v in eqn.out_binders)
        last.update((x, i) for x in eqn.inputs if type(x) is not Lit)
    last.update((x, len(jaxpr.eqns)) for x in jaxpr.outs if type(x) is not Lit)
    return last


def _peak(
    jaxpr: Jaxpr, memo: dict[int, tuple[int, JaxprEqn | None]]
) -> tuple[int, JaxprEqn | None]:
    """Return the peak of a jaxpr in bytes, and the equation whose results are largest; None where no result has bytes."""
    if id(jaxpr) in memo:
        return memo[id(jaxpr)]
    last = _last_uses(jaxpr)
    dies: dict[int, int] = {}
    for eqn in jaxpr.eqns:
        for v in eqn.out_binders:
            dies[last[v]] = dies.get(last[v], 0) + _nbytes(v)
    alive = peak = largest = 0
    where: JaxprEqn | None = None
    for i, eqn in enumerate(jaxpr.eqns):
        own = sum(map(_nbytes, eqn.out_binders))
        inner, culprit = max(
            (_peak(c.jaxpr, memo) for c in sub_jaxprs(eqn)), key=lambda p: p[0], default=(0, None)
        )
        alive += own
        peak = max(peak, alive + inner)
        if max(own, inner) > largest:
            largest, where = max(own, inner), culprit if inner > own and culprit else eqn
        alive -= dies.get(i, 0)
    memo[id(jaxpr)] = peak, where
    return memo[id(jaxpr)]


def _constant_bytes(program: ClosedJaxpr) -> int:
    """Return the bytes of all constants that have values, those of nested jaxprs included, each counted once."""
    found = {}
    inner = (c for eqn in all_eqns(program.jaxpr) for c in sub_jaxprs(eqn))
    for closed in (program, *inner):
        for v, c in zip(closed.jaxpr.const_binders, closed.consts, strict=True):
            if c is not None:
                found[id(c)] = _nbytes(v)
    return sum(found.values())


@deep
def check_memory(program: ClosedJaxpr, max_bytes: int) -> None:
    """Raise UsageError, naming the largest equation, when a program would need more than `max_bytes`."""
    consts = _constant_bytes(program)
    if consts > max_bytes:
        fail(
            UsageError,
            f"the program's constants take {consts:,} bytes, more than the limit of {max_bytes:,}",
            "too-large",
            span=program.jaxpr.span,
            help="raise the limit with --max-bytes",
        )
    peak, eqn = _peak(program.jaxpr, {})
    peak += consts
    if peak <= max_bytes or eqn is None:
        return
    types = " ".join(str(v.aval) for v in eqn.out_binders)
    fail(
        UsageError,
        f"the program needs about {peak:,} bytes at one time, more than the limit of "
        f"{max_bytes:,} (largest: {eqn.primitive} gives {types})",
        "too-large",
        span=eqn.span,
        help="raise the limit with --max-bytes",
    )
