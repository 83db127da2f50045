"""The overhead of profiling: a run with timed equations, and calls under XLA's profiler, against
plain ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.analyses.profiling.timing import Timer
from jaxprtool.backends.xla import client
from jaxprtool.backends.xla.profile import finished
from jaxprtool.driver.compile import compile_located
from jaxprtool.interpreters.evaluation.observe import observed_by

from .measure import Row, best

BUDGET, XLA_BUDGET = 1.5, 2.0
CALLS = 20


def profile_rows(layers: int, runs: int) -> Iterable[Row]:
    """The gradient of an MLP with few elements, an equation; compiled, a call."""
    from .transformations import mlp_gradient

    trace, args = mlp_gradient(layers)
    program = jt.from_jax(trace())
    values = [np.asarray(x) for x in args]
    n, timer = jt.stats(program).figures.written, Timer()

    def timed() -> Any:
        with observed_by(timer):
            return jt.eval_jaxpr(program, values)

    plain, observed = best(runs, lambda: jt.eval_jaxpr(program, values), timed)
    yield Row("profile on NumPy (to run)", observed * 1e6 / n, plain * 1e6 / n, BUDGET)
    compiled = compile_located(program)
    placed = compiled.place(values)

    def calls() -> float:
        """Seconds of a call."""
        began = perf_counter()
        for _ in range(CALLS):
            finished(compiled(*placed))
        return (perf_counter() - began) / CALLS

    def traced() -> float:
        tracing = client.Tracing()
        found = calls()
        tracing.stop()
        return found

    traced()
    pairs = [(calls(), traced()) for _ in range(runs)]
    quickest, profiled = (min(times) for times in zip(*pairs, strict=True))
    yield Row("profile on XLA (to a call)", profiled * 1e6, quickest * 1e6, XLA_BUDGET, "us")
