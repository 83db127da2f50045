"""Measure how the errors of results change when some equations run in a wider precision, by trying it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence

from jaxprtool.analyses.readers import Readers
from jaxprtool.analyses.rounding.precision import Errors
from jaxprtool.analyses.rounding.precision_answer import Together, Trial
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = ["together_of", "trials_of"]

_HELPS = 0.5  # equations whose widening leaves less than this part of the error cause it
_GOOD = 0.01  # if less than this part is left, no further equation is needed
_NEARLY = 4  # equations suffice if at most so many times the error with all equations wide is left
# most equations that help together, per equation tried alone: all from where a value is rounded to where it is cancelled
_MANY = 3
_RUNS = 5  # most runs to find equations that help together, per equation tried alone


def trials_of(
    program: ClosedJaxpr,
    worst: Sequence[Errors],
    can_be: Container[JaxprEqn],
    before: float,
    count: int,
    error_with: Callable[[Collection[JaxprEqn]], float],
) -> list[Trial]:
    """Try one equation, with those that read it, in a wider precision, and return the largest error
    of a result for each.

    The readers are included because they would otherwise round the result to its own type, as the
    equation does. The equations that add most error are tried. Where the error does not come from
    one of these, the equation it comes from is searched among all by bisection: an equation that
    adds little may be what later ones amplify most.

    Args:
      program: the program.
      worst: the errors of its equations, the one that adds most first.
      can_be: the equations that can run in the wider precision.
      before: the largest relative error of a result.
      count: how many of the worst are tried; 0: none.
      error_with: returns the error with some equations in the wider precision; the program runs
        again for each call.

    Returns:
      The trials, the most helpful first.
    """
    if not count:
        return []
    readers = Readers(program.jaxpr)

    def error(eqns: Sequence[JaxprEqn]) -> float:
        return error_with({e for eqn in eqns for e in (eqn, *readers.of(eqn))})

    found: dict[JaxprEqn, Trial] = {}
    adding = {
        e.place.eqn: e for e in worst if e.local and e.local_relative and e.place.eqn in can_be
    }
    for eqn in [*adding][:count]:
        found[eqn] = Trial(adding[eqn].place, before, error([eqn]))
    least = min((t.after for t in found.values()), default=before)
    if len(adding) > count and least > _HELPS * before:
        eqn, after = _by_halves(sorted(adding, key=_position), error, before)
        if eqn is not None and eqn not in found:
            found[eqn] = Trial(adding[eqn].place, before, after)
    return sorted(found.values(), key=lambda t: t.after)


def _position(eqn: JaxprEqn) -> int:
    return -1 if eqn.span is None else eqn.span.start


def _by_halves(
    eqns: Sequence[JaxprEqn], error: Callable[[Sequence[JaxprEqn]], float], before: float
) -> tuple[JaxprEqn | None, float]:
    """Return the equation from which most of the error comes, and the error without it; None where
    all together do not help.
    """
    after = error(eqns)
    if after > _HELPS * before:
        return None, before
    while len(eqns) > 1:
        middle = len(eqns) // 2
        halves = [(error(half), half) for half in (eqns[:middle], eqns[middle:])]
        after, eqns = min(halves, key=lambda pair: pair[0])
    return eqns[0], after


def together_of(
    worst: Sequence[Errors],
    can_be: Container[JaxprEqn],
    trials: Sequence[Trial],
    before: float,
    count: int,
    error_with: Callable[[Collection[JaxprEqn]], float],
) -> Together | None:
    """Find few equations that help together, where none helps as much alone.

    An example is a value that is rounded at every step until it is cancelled. The remaining error
    stays small without all other equations. The number of runs is bounded; in large programs the
    equations may not be the fewest.

    Args:
      worst, can_be, before, count, error_with: as for `trials_of`.
      trials: the results of `trials_of`.

    Returns:
      The equations in the order of the program, at most `_MANY` times `count`; None where one helps
        as much alone, or all together do not.
    """
    alone = min((t.after for t in trials), default=before)
    if not count or alone <= _GOOD * before:
        return None
    places = {e.place.eqn: e.place for e in worst if e.place.eqn in can_be}
    kept = sorted(places, key=_position)
    least = error_with({*kept})
    if not least <= _HELPS * before:
        return None
    enough = min(max(_GOOD * before, _NEARLY * least), _HELPS * before)
    if alone <= enough:
        return None
    kept = _fewest(kept, lambda eqns: error_with({*eqns}) <= enough, _RUNS * count)
    if len(kept) > _MANY * count:
        return None
    return Together([places[e] for e in kept], before, error_with({*kept}))


def _fewest(
    eqns: list[JaxprEqn], helps: Callable[[Sequence[JaxprEqn]], bool], runs: int
) -> list[JaxprEqn]:
    """Reduce a list of equations to few that still help, by leaving out halves, quarters and so on."""
    size = (len(eqns) + 1) // 2
    while size:
        i = 0
        while i < len(eqns):
            fewer = eqns[:i] + eqns[i + size :]
            runs -= 1
            if runs < 0:
                return eqns
            if fewer and helps(fewer):
                eqns = fewer
            else:
                i += size
        size //= 2
    return eqns
