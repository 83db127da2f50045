"""The cheapest choice of what to keep and what to compute again, as a mixed-integer program that HiGHS solves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

__all__ = ["cheapest"]


def cheapest(
    sizes: Sequence[int],
    costs: Sequence[int],
    makers: Sequence[int],
    reads: Sequence[Sequence[int]],
    needed: Sequence[int],
    limit: int,
    seconds: float,
) -> list[bool] | None:
    """Which values to keep, such that the others can be computed again at the least cost.

    Of each value the equation that makes it is known. A value is there for the second computation if it is kept, or if its
    equation is computed again, for which all values that the equation reads have to be there. (Each equation is computed
    again at most once; Jain et al. 2020, "Checkmate", where a value may be computed several times.)

    Args:
      sizes: the bytes of each value.
      costs: the operations of each equation.
      makers: for each value the equation that makes it.
      reads: for each equation the values that it reads.
      needed: the values that have to be there.
      limit: the bytes that may be kept.
      seconds: when to be content with the best choice so far.

    Returns:
      For each value whether it is kept; None where no choice was found.
    """
    n = len(sizes)
    if not n:
        return []
    # One variable for each value (kept or not), then one for each equation (computed again or not); they are 0 or 1.
    rows = _rows(n, makers, reads, needed)
    scale = max(limit, 1)
    entries = [(i, j, float(x)) for i, (row, _) in enumerate(rows) for j, x in row]
    entries += [(len(rows), value, -size / scale) for value, size in enumerate(sizes)]
    lower = np.array([*[least for _, least in rows], -limit / scale])
    i, j, x = (np.array(column) for column in zip(*entries, strict=True))
    matrix = coo_array((x, (i, j)), shape=(len(lower), n + len(costs)))
    # between choices of one cost the one that keeps less
    total, small = max(sum(costs), 1), 1e-6 / max(sum(sizes), 1)
    found = milp(
        np.array([*[s * small for s in sizes], *[c / total for c in costs]]),
        constraints=LinearConstraint(matrix.tocsr(), lower, np.inf),  # type: ignore[arg-type] (SciPy's types say a number)
        integrality=np.ones(n + len(costs)),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds},
    )
    return None if found.x is None else [bool(kept > 0.5) for kept in found.x[:n]]


_Row = tuple[list[tuple[int, int]], int]


def _rows(
    n: int, makers: Sequence[int], reads: Sequence[Sequence[int]], needed: Sequence[int]
) -> list[_Row]:
    """The constraints that values are there: coefficients of variables, and the least that their sum may be."""
    found: list[_Row] = [([(value, 1), (n + makers[value], 1)], 1) for value in needed]
    for equation, values in enumerate(reads):
        for value in values:
            if makers[value] != equation:
                found.append(([(value, 1), (n + makers[value], 1), (n + equation, -1)], 0))
    return found
