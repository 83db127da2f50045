"""Record the values of one run: those of a candidate's variables, and of the jaxprs that its equations run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from jaxprtool.analyses.places import Watch
from jaxprtool.analyses.reduction.candidate import Candidate, zeros_of
from jaxprtool.interpreters.evaluate import eval_jaxpr
from jaxprtool.interpreters.evaluation.limits import limited_seconds
from jaxprtool.interpreters.evaluation.observe import observed_by, written_as
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Value, Var

__all__ = ["Run", "Values", "fits"]

_LEAST = 0.25  # seconds of a run whose loop may have no end


class Run(NamedTuple):
    """A run of a jaxpr that an equation holds.

    Attributes:
      jaxpr: the jaxpr, as the program holds it.
      ran: the jaxpr that has run: the same, or what evaluation runs in its place, which any program
        can hold (shard_map: for all devices).
      args: the values of its constants and arguments.
      outs: the values of its results.
      ins: the values of the equation's operands, once it is done.
      results: the values of the equation's results, once it is done.
    """

    jaxpr: Jaxpr
    ran: Jaxpr
    args: Sequence[Value]
    outs: Sequence[Value]
    ins: Sequence[Value] = ()
    results: Sequence[Value] = ()


class Values:
    """The values of variables that are known from runs of candidates.

    Attributes:
      room: how many bytes of values may still be kept.
      seconds: how long the loops of a run may take; None for any time. Less after a run that took
        as long: its loop may have no end, and it is run again for each candidate that has it.
      within: returns the context manager in which a run happens.
      runs: for each equation of a candidate that holds jaxprs, some of their runs: the first, the
        last, and those whose index is a power of two.
    """

    def __init__(
        self,
        max_bytes: int,
        seconds: float | None = None,
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        self.room, self.seconds, self.within = max_bytes, seconds, within
        self.runs: dict[JaxprEqn, list[Run]] = {}
        self._values: dict[Var, Value] = {}
        self._recorded: set[Jaxpr] = set()

    def record(self, candidate: Candidate) -> None:
        """Run a candidate on NumPy once, as far as it goes, and keep its values while there is room."""
        if candidate.args is None or candidate.jaxpr in self._recorded:
            return
        if all(
            v in self._values and not e.primitive.holds_jaxprs
            for e in candidate.jaxpr.eqns
            for v in e.out_binders
        ):
            return
        self._recorded.add(candidate.jaxpr)
        self.runs.clear()
        recorder = _Recorder(self)
        begin = time.monotonic()
        try:
            with self.within(), observed_by(recorder), limited_seconds(self.seconds):
                eval_jaxpr(candidate.jaxpr, candidate.args)
        except JaxprToolError:  # the values of what ran before are known
            if self.seconds is not None and time.monotonic() - begin >= self.seconds:
                self.seconds = min(self.seconds, max(self.seconds / 8, _LEAST))

    def keep(self, v: Var, value: Value) -> None:
        """Keep the value of a variable, if it has the type of the variable and there is room."""
        if v not in self._values and fits(value, v):
            self.room -= getattr(value, "nbytes", 0)
            if self.room >= 0:
                self._values[v] = value

    def __call__(self, v: Var) -> Value:
        """Return the value of a variable; zeros where it is not known."""
        found = self._values.get(v)
        return zeros_of(v.aval) if found is None else found


def fits(value: Value, v: Var) -> bool:
    """Whether a value is an array of a variable's type (inside a shard_map it may be one for all devices, which is not)."""
    aval = v.aval
    return isinstance(aval, ShapedArray) and getattr(value, "shape", None) == aval.shape


class _Recorder(Watch):
    """Observes the values of the outermost level, and the runs of the jaxprs right below it."""

    def __init__(self, values: Values):
        super().__init__()
        self.values = values
        self.counts: dict[tuple[JaxprEqn, Jaxpr], int] = {}
        self.args: list[Sequence[Value]] = []
        self.begun: list[tuple[bool, Run]] = []

    def enter(self, jaxpr: Jaxpr, args: Sequence[Value]) -> bool:
        if len(self.levels) > 1 or not super().enter(jaxpr, args):
            return False
        self.args.append([*args])
        return True

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Value]) -> None:
        super().leave(jaxpr, outs)
        args = self.args.pop()
        if not self.levels:
            return
        eqn = self.levels[-1].eqn
        assert eqn is not None
        original = written_as(jaxpr)
        key = eqn, original
        n = self.counts[key] = self.counts.get(key, -1) + 1
        keep = n & (n - 1) == 0
        self.begun = [r for r in self.begun if r[0] or r[1].jaxpr is not original]
        self.begun.append((keep, Run(original, jaxpr, args, outs)))

    def see(self, eqn: JaxprEqn, ins: Sequence[Value], outs: Sequence[Value]) -> None:
        if len(self.levels) > 1:
            return
        copied = any(not isinstance(x.aval, ShapedArray) for x in eqn.inputs)
        for v, value in zip(eqn.out_binders, outs, strict=True):
            is_array = hasattr(value, "copy")
            self.values.keep(v, value.copy() if copied and is_array else value)
        if eqn.primitive.holds_jaxprs:
            runs = [r._replace(ins=ins, results=outs) for _, r in reversed(self.begun)]
            self.values.runs[eqn] = runs
            self.begun, self.counts = [], {}
