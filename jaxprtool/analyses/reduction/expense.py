"""Find the equations of a candidate that take the time of a run on NumPy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.places import Watch
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.analyses.reduction.record import fits
from jaxprtool.interpreters.evaluate import eval_jaxpr
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Value

__all__ = ["expensive_parts"]

_MOST = 64  # slowest equations whose operands are kept


class _Clock(Watch):
    """Measures the outermost equations, and keeps the operands of the slowest ones.

    Attributes:
      taken: the seconds that each equation took.
      ins: the values of the operands of the slowest equations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[JaxprEqn, float] = {}
        self.ins: dict[JaxprEqn, Sequence[Value]] = {}
        self._since = 0.0

    def enter(self, jaxpr: Jaxpr, args: Sequence[Value]) -> bool:
        if self.levels:
            return False
        self._since = time.perf_counter()
        return super().enter(jaxpr, args)

    def see(self, eqn: JaxprEqn, ins: Sequence[Value], outs: Sequence[Value]) -> None:
        self.taken[eqn] = time.perf_counter() - self._since
        self.ins[eqn] = [*ins]
        if len(self.ins) > 2 * _MOST:
            longest = sorted(self.ins, key=self.taken.__getitem__, reverse=True)[:_MOST]
            self.ins = {e: self.ins[e] for e in longest}
        self._since = time.perf_counter()


def expensive_parts(candidate: Candidate) -> list[Candidate]:
    """Return candidates of the slowest equation, of the two slowest, of four and so on, each with the operands of a run.

    Equations on references are left out, as a program cannot hold them without others.
    """
    assert candidate.args is not None
    clock = _Clock()
    with observed_by(clock):
        eval_jaxpr(candidate.jaxpr, candidate.args)
    longest = sorted(clock.ins, key=clock.taken.__getitem__, reverse=True)[:_MOST]
    found: list[Candidate] = []
    n = 1
    while n <= len(longest) and n < len(candidate.jaxpr.eqns):
        part = _part(candidate, {*longest[:n]}, clock.ins)
        if part is not None:
            found.append(part)
        n *= 2
    return found


def _part(
    candidate: Candidate, wanted: set[JaxprEqn], ins: dict[JaxprEqn, Sequence[Value]]
) -> Candidate | None:
    """Return the candidate of some equations, whose other operands are arguments; None where values do not fit the types."""
    eqns = [e for e in candidate.jaxpr.eqns if e in wanted]
    made = {v for e in eqns for v in e.out_binders}
    given: dict[Any, Value] = {}
    for eqn in eqns:
        for x, value in zip(eqn.inputs, ins[eqn], strict=True):
            if type(x) is not Lit and x not in made:
                given[x] = value
    if not all(fits(value, v) for v, value in given.items()):
        return None
    whole = Candidate(Jaxpr([*given], eqns, []), [*given.values()])
    return whole.rebuilt(eqns, [v for e in eqns for v in e.out_binders])
