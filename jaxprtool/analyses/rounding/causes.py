"""Which equations the errors of results come from: those that add an error, and those that amplify one."""

from __future__ import annotations

from typing import Any

from jaxprtool.analyses.rounding.precision_pairs import Pair
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.dce import live_eqns
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.memo import Memo

__all__ = ["amplified_by", "is_read", "scores"]

_MOVES = ("kept", "permuted", "chosen", "placed", "ordered")
_FOURTH = 0.25  # the exponent by which `scores` discounts errors that are small beside those of the results
_LIVE = Memo[set[Any]]("atoms that results depend on")


def is_read(pair: Pair) -> Any:
    """Return for each column of a pair whether a result of the jaxpr, or an effect, depends on it."""
    eqns = pair.own.eqns
    live = _LIVE.of(pair.own, lambda: live_eqns(eqns, pair.own.outs)[1])
    found = [eqns[i].out_binders[k] in live for i, k in pair.columns]
    return numpy_namespace().array(found, bool)


def _moved_from(pair: Pair) -> list[tuple[int, int]]:
    """Return the columns whose elements are moved from a single other column, each with that one; the last ones first."""
    found: list[tuple[int, int]] = []
    eqns = pair.own.eqns
    moving = {p for p in {e.primitive for e in eqns} if elements_facts[p] in _MOVES}
    for c in reversed(range(len(pair.columns))) if moving else ():
        eqn = pair.eqn(c)
        if eqn.primitive in moving:
            given = [pair.column_of[x] for x in eqn.inputs if x in pair.column_of]
            if len({*given}) == 1:
                found.append((c, given[0]))
    return found


def amplified_by(pair: Pair, numbers: Any) -> Any:
    """Return errors in which amplification by an equation that only moves elements counts for the equation that computes them.

    An error is relative to the largest element of an array. Where a difference is off in its small
    elements, it amplifies the error, although that only shows once a slice leaves the large
    elements out.

    Args:
      pair: the jaxpr.
      numbers: the errors by column: [5, columns], the rows as in `precision.Table`.
    """
    found = numbers.copy()
    amplification, grown = found[3], found[4]
    for c, p in _moved_from(pair):
        if amplification[c] > 1 and grown[c] > 0:
            amplification[p] = max(amplification[p], 1.0) * amplification[c]
            grown[p] = max(grown[p], 0.0) + grown[c]
            amplification[c], grown[c] = 1.0, 0.0
    return found


def scores(numbers: Any, error: float) -> Any:
    """Return how much each equation counts for what it amplifies.

    An error grows to its final size by one factor after the other. An equation's share in that is
    the logarithm of its factor, as far as the error does not exceed that of the results; the share
    is less where even the larger error is small beside that.

    Args:
      numbers: the errors by equation: [5, equations], the rows as in `precision.Table`.
      error: the largest relative error of a result.
    """
    xp = numpy_namespace()
    factor, grown = numbers[3], numbers[4]
    some = (factor > 1) & (grown > 0)
    factor, grown = xp.where(some, factor, 2.0), xp.where(some, grown, 0.0)
    before = grown / (factor - 1)
    after = xp.minimum(before * factor, error)
    more = some & (after > before)
    ratio = xp.where(more, after, 1.0) / xp.where(more, before, 1.0)
    return xp.where(more, xp.log(ratio) * (after / error) ** _FOURTH, 0.0)
