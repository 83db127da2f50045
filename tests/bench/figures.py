"""`stats`, `cost`, `lint` and `assert` of a program, against reading it and checking its types: the whole of each verb but its start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jaxprtool as jt

from .measure import Row, alone

BUDGET = 1.5  # of the time that `check` takes


def _text(layers: int) -> str:
    from .transformations import mlp_gradient

    trace, _ = mlp_gradient(layers)
    return jt.format_jaxpr(jt.from_jax(trace()), lossless=True)


def figure_rows(layers: int, runs: int) -> Iterable[Row]:
    """The gradient of an MLP, an equation."""
    text = _text(layers)
    n = jt.stats(jt.parse(text)).figures.written

    def of(verb: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: verb(jt.parse(text))

    words = [jt.Assertion(x) for x in ("no f64", "count(mul {scope ~ jvp}) >= 0", "mul feeds add")]
    check, stats, cost, lint, holds = alone(
        runs,
        of(lambda p: jt.check(p)),
        of(lambda p: jt.stats(p).lines()),
        of(lambda p: jt.cost(p).lines()),
        of(lambda p: jt.lint(p).lines()),
        of(lambda p: jt.holds(p, *words).lines()),
    )
    for what, seconds in (("stats", stats), ("cost", cost), ("lint", lint), ("assert", holds)):
        yield Row(f"{what} (to check)", seconds * 1e6 / n, check * 1e6 / n, BUDGET)
