"""Which operands of an equation become which arguments of a jaxpr inside it, and which results are carried.

Arguments and operands have the same order, counted from the end; results of the equation and of the
jaxpr correspond where there are as many.
"""

from __future__ import annotations

from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn

__all__ = ["arguments_of", "carried"]


def arguments_of(inner: Jaxpr, eqn: JaxprEqn) -> list[int | None]:
    """Return for each operand of an equation the position of the argument of the inner jaxpr that it becomes; None for none.

    A condition's operands that precede what a loop carries correspond from the beginning.
    """
    n, m, results = len(eqn.inputs), len(inner.in_binders), len(eqn.out_binders)
    if m >= n:
        return [*range(n)]
    if len(inner.outs) != results and m >= results:
        front = m - results
        return [k if k < front else k - n + m if k >= n - results else None for k in range(n)]
    return [None if k < n - m else k - n + m for k in range(n)]


def carried(eqn: JaxprEqn, run: Run) -> list[tuple[int, int]]:
    """Return for each result of a loop's body that is an argument of the next iteration both positions."""
    inner = run.jaxpr.jaxpr
    n, m = len(inner.outs), len(inner.in_binders)
    if (run.times < 2 and not run.turns) or run.devices > 1 or n != len(eqn.out_binders):
        return []
    first, count = eqn.params.get("num_consts"), eqn.params.get("num_carry")
    if not isinstance(first, int) or not isinstance(count, int):
        first, count = m - n, n  # the body of a loop that carries all of its results
    return [(j, first + j) for j in range(min(count, n)) if 0 <= first + j < m]
