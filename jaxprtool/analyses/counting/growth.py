"""How the parts of a program grow with its size: the exponents of equations and bytes, scope by scope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.counting.stats import grouping
from jaxprtool.analyses.counting.stats_answer import Trend
from jaxprtool.analyses.counting.tally import Count, Entry, Table, in_order, tally
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr

__all__ = ["exponent", "trends"]

_FIGURES = ("equations", "bytes")


def trends(
    programs: Sequence[ClosedJaxpr], sizes: Sequence[int], by: str, trips: int | None
) -> list[Trend]:
    """Return how each group of equations grows, the steepest first.

    Args:
      programs: one program in several sizes.
      sizes: a number for each, all different.
      by: one of `stats.KEYS`.
      trips: the iterations of a loop whose length is not known; None: unknown.
    """
    tables = [_executed(p, by, trips) for p in programs]
    found: list[Trend] = []
    for key in dict.fromkeys(k for table in tables for k in table):
        for i, figure in enumerate(_FIGURES):
            counts = [table[key].counts[i] if key in table else Count() for table in tables]
            values = tuple([c.high for c in counts])
            found.append(Trend(key, figure, values, exponent(sizes, values)))
    return sorted(found, key=_steepest_first)


def _steepest_first(trend: Trend) -> Any:
    largest = max((v for v in trend.values if v is not None), default=0)
    return -round(trend.exponent or 0, 2), -largest, str(trend.key)


def _executed(program: ClosedJaxpr, by: str, trips: int | None) -> Table:
    """Return by key how many equations are executed, and the bytes of their results."""
    key, within, spell = grouping(by)

    def measure(jaxpr: Jaxpr) -> Table:
        sums: dict[Any, list[int]] = {}
        for eqn in jaxpr.eqns:
            into = sums.setdefault(key(eqn), [0, 0])
            into[0] += 1
            if not runs_of(eqn):  # else its results are counted inside the jaxprs that it runs
                into[1] += sum(getattr(v.aval, "nbytes", 0) for v in eqn.out_binders)
        table: Table = {}
        for k, (n, nbytes) in sums.items():
            entry, name = Entry(n, (Count(n, n), Count(nbytes, nbytes))), spell(k)
            table[name] = table[name] + entry if name in table else entry
        return table

    return tally(in_order(program.jaxpr), measure, within, trips)


def exponent(sizes: Sequence[int], values: Sequence[float | None]) -> float | None:
    """Return the slope of log(value) over log(size) by least squares; None where a value is unknown, or 0 somewhere."""
    known = [v for v in values if v]
    if len(known) < len(values):
        return None
    xs, ys = [math.log(n) for n in sizes], [math.log(v) for v in known]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / across
