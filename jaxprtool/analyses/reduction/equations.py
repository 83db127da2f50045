"""Edits of the outermost equations: fewer results, fewer equations, operands in the place of results.

Each family is a generator of rounds. A round is a list of edits that are tried in order, each on
the smallest candidate so far. The next round may depend on what the last one achieved, which
`State.current` shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.analyses.reduction.candidate import Candidate, Edit
from jaxprtool.analyses.reduction.record import Values
from jaxprtool.analyses.reduction.rounds import Rounds, State
from jaxprtool.ir.jaxpr import JaxprEqn, Lit, Var

__all__ = ["ends", "forwarded", "held", "results", "singles", "slices", "unused"]


def unused(state: State, values: Values) -> Rounds:
    """Remove the equations and arguments that no result depends on."""
    yield [Candidate.live]


def results(state: State, values: Values) -> Rounds:
    """Keep a single result; else remove halves of the results, quarters, and so on to single ones."""
    outs = state.current.jaxpr.outs
    if len(outs) > 1:
        yield [_only_results({x}) for x in outs]
    size = len(state.current.jaxpr.outs) // 2
    while size:
        outs = state.current.jaxpr.outs
        parts = [outs[i : i + size] for i in range(0, len(outs), size)]
        yield [_only_results({*outs} - {*part}, {*part}) for part in reversed(parts)]
        size = min(size, len(state.current.jaxpr.outs)) // 2


def _only_results(wanted: set[Any], gone: set[Any] | None = None) -> Edit:
    """Return the edit that keeps the results `wanted`, or removes those in `gone`, where that is given."""

    def edit(c: Candidate) -> Candidate | None:
        keeps = (lambda x: x in wanted) if gone is None else (lambda x: x not in gone)
        outs = [x for x in c.jaxpr.outs if keeps(x)]
        if not outs or len(outs) == len(c.jaxpr.outs):
            return None
        return c.rebuilt(c.jaxpr.eqns, outs)

    return edit


def ends(state: State, values: Values) -> Rounds:
    """Cut off equations at the end, then at the beginning, as many as bisection finds possible.

    Values of the rest that the equations at the end read become results; those of the beginning
    that the rest reads become arguments.
    """
    low, high = 0, len(state.current.jaxpr.eqns)
    while high - low > 1:
        middle = (low + high) // 2
        before = state.current
        yield [lambda c, n=middle: _first(c, n)]
        low, high = (low, middle) if state.current is not before else (middle, high)
    values.record(state.current)
    eqns = state.current.jaxpr.eqns
    low, high = 0, len(eqns)
    while high - low > 1:
        middle = (low + high) // 2
        before = state.current
        yield [lambda c, gone=eqns[:middle]: c.without(gone, values)]
        low, high = (middle, high) if state.current is not before else (low, middle)


def _first(c: Candidate, n: int) -> Candidate | None:
    """Return the candidate of the first n equations, whose results are the values that the rest reads of them."""
    kept, rest = c.jaxpr.eqns[:n], c.jaxpr.eqns[n:]
    read = {x for e in rest for x in e.inputs if type(x) is not Lit} | {*c.jaxpr.outs}
    outs = [v for e in kept for v in e.out_binders if v in read]
    return c.rebuilt(kept, outs) if rest else None


def slices(state: State, values: Values) -> Rounds:
    """Remove slices of equations, the last ones first: halves, quarters, and so on to pairs (delta debugging)."""
    size = len(state.current.jaxpr.eqns) // 2
    while size > 1:
        yield [*_removals(state, values, size)]
        size //= 2


def singles(state: State, values: Values) -> Rounds:
    """Remove single equations, the last ones first."""
    yield [*_removals(state, values, 1)]


def held(state: State, values: Values) -> Rounds:
    """Remove single equations while the program keeps as many results: the results of a removed equation become arguments.

    Where equations compute all results, only these equations are tried: other families remove the
    others.
    """
    values.record(state.current)
    eqns, outs = state.current.jaxpr.eqns, {*state.current.jaxpr.outs}
    giving = [e for e in eqns if not outs.isdisjoint(e.out_binders)]
    made = {v for e in giving for v in e.out_binders}
    tried = giving if outs <= made else eqns
    yield [lambda c, e=e: c.without([e], values, hold=True) for e in reversed(tried)]


def _removals(state: State, values: Values, size: int) -> Iterator[Edit]:
    values.record(state.current)
    eqns = state.current.jaxpr.eqns
    for i in reversed(range(0, len(eqns), size)):
        yield lambda c, gone=eqns[i : i + size]: c.without(gone, values)


def forwarded(state: State, values: Values) -> Rounds:
    """Replace the result of an equation by an operand of the same type."""
    found: list[Edit] = []
    for eqn in reversed(state.current.jaxpr.eqns):
        if len(eqn.out_binders) == 1:
            v = eqn.out_binders[0]
            alike = [x for x in eqn.inputs if x.aval.strong == v.aval.strong]
            found += [_in_place_of(eqn, v, x) for x in dict.fromkeys(alike)]
    yield found


def _in_place_of(eqn: JaxprEqn, v: Var, x: Any) -> Edit:
    def edit(c: Candidate) -> Candidate | None:
        if eqn not in c.jaxpr.eqns:
            return None
        return c.rebuilt(
            *substituted([e for e in c.jaxpr.eqns if e is not eqn], c.jaxpr.outs, {v: x})
        )

    return edit


def substituted(
    eqns: Sequence[JaxprEqn], outs: Sequence[Any], new: dict[Var, Any]
) -> tuple[list[JaxprEqn], list[Any]]:
    """Return equations and results with some variables replaced by other atoms."""

    def atom(x: Any) -> Any:
        return x if type(x) is Lit else new.get(x, x)

    changed = [
        e
        if new.keys().isdisjoint(x for x in e.inputs if type(x) is not Lit)
        else e.replace(inputs=[*map(atom, e.inputs)])
        for e in eqns
    ]
    return changed, [*map(atom, outs)]
