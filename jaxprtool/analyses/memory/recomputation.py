"""Choose the values to keep for a reverse pass under a limit of memory, so that recomputing the others costs least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.memory.kept import Kept
from jaxprtool.analyses.memory.liveness import Sizes
from jaxprtool.analyses.places import Place
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.interpreters.cost import Costs
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var

__all__ = ["Solver", "values_to_keep"]

# (sizes, costs, makers, reads, needed, limit) -> for each value whether it is kept, or None; see `backends.choice`
Solver = Callable[..., "list[bool] | None"]


def values_to_keep(
    program: ClosedJaxpr, saved: Sequence[Kept], limit: int, solve: Solver
) -> list[Var] | None:
    """Return the results of equations to keep, so that the other needed values are computed again at the least cost.

    Args:
      program: the program.
      saved: the values that a reverse pass needs, all of them results of equations.
      limit: the bytes that may be kept.
      solve: the solver.

    Returns:
      Variables of the program; None where the solver finds no choice.
    """
    jaxpr, sizes, costs = program.jaxpr, Sizes(), Costs()
    variables: list[Var] = []
    makers: list[int] = []
    at: dict[Any, int] = {}
    known: dict[Any, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for k, v in enumerate(eqn.out_binders):
            at[v] = known[str(eqn.span), eqn.primitive, k] = len(variables)
            variables.append(v)
            makers.append(i)
    reads = [
        [at[x] for x in dict.fromkeys(e.inputs) if not isinstance(x, Lit) and x in at]
        for e in jaxpr.eqns
    ]
    needed = {known[v.result] for v in saved if v.result in known}
    places = {_place(v.producer) for v in saved if v.result not in known or _is_own(v)}
    for eqn, values in zip(jaxpr.eqns, reads, strict=True):
        # What differentiation makes from an equation is computed again from its operands, and so is what is inside one. A
        # name is given to a result after its equation, whose own derivative does not read the named value.
        if str(eqn.span) in places or (runs_of(eqn) and _has_inner(eqn, places)):
            needed.update(values)
    chosen = solve(
        [sizes[v.aval] for v in variables],
        [_operations(costs, eqn) for eqn in jaxpr.eqns],
        makers,
        reads,
        sorted(needed),
        limit,
    )
    if chosen is None:
        return None
    # a reference cannot be given a name
    pairs = zip(variables, chosen, strict=True)
    return [v for v, kept in pairs if kept and isinstance(v.aval, ShapedArray)]


def _place(place: Place | None) -> str:
    return "" if place is None else str(place.eqn.span)


def _is_own(value: Kept) -> bool:
    """Whether the derivative of the equation that computes a value reads it, as that of `exp` does."""
    return _place(value.producer) == _place(value.consumer)


def _has_inner(eqn: JaxprEqn, places: set[str]) -> bool:
    """Whether one of some places is inside an equation."""
    stack = [run.jaxpr.jaxpr for run in runs_of(eqn)]
    while stack:
        for inner in stack.pop().eqns:
            if str(inner.span) in places:
                return True
            stack += [run.jaxpr.jaxpr for run in runs_of(inner)]
    return False


def _operations(costs: Costs, eqn: JaxprEqn) -> int:
    """Return the cost of an equation; to move its elements costs a little, so that nothing is computed again needlessly."""
    found = costs.of(eqn)
    return 16 * (found.flops + found.transcendentals) + (found.bytes or 0) // 4 + 1
