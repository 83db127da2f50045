"""Which equations only hand a value on, whatever the values are or as far as a run shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from jaxprtool.analyses.comparing.in_step import See
from jaxprtool.ir.jaxpr import JaxprEqn, Var
from jaxprtool.passes.simplify import handed_on

__all__ = ["Handing"]

_RECENT = 4  # results of equations without counterparts that are compared with what comes next


class Handing:
    """Knows equations that return a value unchanged: `mul x 1` by what it is, `add x 0.0` or `clamp` where a run shows it.

    Two negations return what the first one took, as far as the run shows.
    """

    def __init__(self, equal: Callable[[Any, Any], bool]):
        """equal: whether two values are equal, zeros of both signs too."""
        self._equal = equal
        self._known: dict[JaxprEqn, Var | None] = {}
        self._shown: dict[JaxprEqn, Var] = {}
        self._recent: deque[tuple[Var, Any]] = deque(maxlen=_RECENT)

    def given_by(self, eqn: JaxprEqn, *, shown: bool = False) -> Var | None:
        """Return the variable whose value an equation returns unchanged; None for most equations.

        shown: whether it counts that a run shows it, for values that it may have by chance.
        """
        if eqn not in self._known:
            self._known[eqn] = handed_on(eqn)
        return self._known[eqn] or (self._shown.get(eqn) if shown else None)

    def skipped(self, seen: See) -> None:
        """Look at an equation without a counterpart that has run."""
        if len(seen.outs) == 1:
            self.ran(seen)
            self._recent.append((seen.eqn.out_binders[0], seen.outs[0]))

    def ran(self, seen: See) -> None:
        """Note whether an equation that has run has returned one of its operands, or of the values before, unchanged."""
        eqn = seen.eqn
        if len(seen.outs) != 1 or len(eqn.out_binders) != 1 or eqn.primitive.holds_jaxprs:
            return
        if self.given_by(eqn) is not None:
            return
        y = seen.outs[0]
        operands = zip(eqn.inputs, seen.ins, strict=True)
        before = [*self._recent] if self._reads_recent(eqn) else []
        for x, value in (*operands, *before):
            if not isinstance(x, Var) or x.aval.strong != eqn.out_binders[0].aval.strong:
                continue
            if self._equal(value, y):
                self._shown[eqn] = x
                return

    def _reads_recent(self, eqn: JaxprEqn) -> bool:
        return any(x is v for x in eqn.inputs for v, _ in self._recent)
