"""Find the bad results among those of equations that have run, one by one or many together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import Any

from jaxprtool.analyses.blaming.bad_values import LARGE, Sought
from jaxprtool.analyses.blaming.plans import Plans
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["BadResults"]


class BadResults:
    """Finds the bad results among those of equations that have run.

    Both methods return, by index of the equation, the worst state (`Sought.state`), the positions
    of the bad results, and the codes of a single result as bytes, or None where nobody has looked.
    """

    def __init__(self, sought: Sought):
        self._sought = sought

    def few(self, log: Log, plans: Plans, start: int, end: int) -> dict[int, Any]:
        """Find the bad results of the equations from start to end, one by one."""
        found: dict[int, Any] = {}
        state = self._sought.state
        for i in range(start, end):
            plan = plans.eqns[i]
            if plan.single:
                worst = state(log.results[i])
                if worst:
                    found[i] = worst, (0,), None
            elif plan.floats:
                outs = log.given(i)
                states = [state(outs[k]) for k in plan.floats]
                worst = max(states)
                if worst:
                    pairs = zip(plan.floats, states, strict=True)
                    found[i] = worst, tuple([k for k, s in pairs if s]), None
        return found

    def many(self, log: Log, plans: Plans, start: int, end: int) -> dict[int, Any]:
        """Find the bad results of the equations from start to end; single results of one type are looked at together."""
        by_type: dict[Any, tuple[list[int], list[Any]]] = {}
        bad: dict[int, Any] = {}
        several: list[int] = []
        for i in range(start, end):
            plan = plans.eqns[i]
            if not plan.single:
                if plan.floats:
                    several.append(i)
                continue
            x = log.results[i]
            shape = x.shape
            if len(shape) != 1:
                x = x.reshape(-1) if shape else x
            if shape and x.size >= LARGE:
                codes = self._sought.codes(x)
                if codes is not None:
                    bad[i] = _found(codes.tobytes())
                continue
            key = x.dtype, not shape
            found = by_type.get(key)
            if found is None:
                found = by_type[key] = [], []
            found[0].append(i)
            found[1].append(x)
        for (_, scalar), (where, values) in by_type.items():
            self._among(where, values, scalar, bad)
        for i in several:
            bad.update(self.few(log, plans, i, i + 1))
        return bad

    def _among(
        self, where: Sequence[int], values: Sequence[Any], scalar: bool, bad: dict[int, Any]
    ) -> None:
        """Add to `bad` the bad ones of some flat values of one type; where: the indices of their equations."""
        xp = numpy_namespace()
        codes = self._sought.codes(xp.array(values) if scalar else xp.concatenate(values))
        if codes is None:
            return
        sizes = repeat(1, len(values)) if scalar else [x.size for x in values]
        data, begin = codes.tobytes(), 0
        for i, end in zip(where, accumulate(sizes), strict=True):
            code = data[begin:end]
            n = end - begin - code.count(0)
            if n:
                bad[i] = 2 * n + (3 in code), (0,), code
            begin = end


def _found(code: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """Return what is found of a single result, by the codes of its elements."""
    return 2 * (len(code) - code.count(0)) + (3 in code), (0,), code
