"""Choose at the least cost which values to keep and which to recompute, as a mixed-integer program
that HiGHS solves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    """Return which values to keep, such that the others can be recomputed at the least cost.

    Each value is made by a known equation. A value is available to the second computation if it is
    kept, or if its equation is computed again, which requires all values that the equation reads.
    (Each equation is computed again at most once; Jain et al. 2020, "Checkmate", where a value may
    be computed several times.)

    Args:
      sizes: the bytes of each value.
      costs: the operations of each equation.
      makers: for each value the equation that makes it.
      reads: for each equation the values that it reads.
      needed: the values that have to be available.
      limit: the bytes that may be kept.
      seconds: the time after which the best choice so far is taken.

    Returns:
      For each value whether it is kept; None where no choice was found, and where there are more
        than 20,000 values: HiGHS then prepares for minutes without looking at the clock.
    """
    n = len(sizes)
    if not n:
        return []
    if n > _MOST:
        return None
    # One variable for each value (kept or not), then one for each equation (computed again or not); they are 0 or 1.
    scale = max(limit, 1)
    matrix, least = _constraints(np.array(sizes) / scale, len(costs), makers, reads, needed)
    lower = np.append(least, -limit / scale)
    # between choices of one cost the one that keeps less
    total, small = max(sum(costs), 1), 1e-6 / max(sum(sizes), 1)
    found = milp(
        np.array([*[s * small for s in sizes], *[c / total for c in costs]]),
        constraints=LinearConstraint(matrix, lower, np.inf),  # type: ignore[arg-type] (SciPy's types say a number)
        integrality=np.ones(n + len(costs)),
        bounds=Bounds(0, 1),
        # The constraint of the sizes has all values in it, and the time of HiGHS's presolve, which does not look at the clock,
        # grows with the square of such a row.
        options={"time_limit": seconds, "presolve": n <= _PRESOLVED},
    )
    return None if found.x is None else [bool(kept > 0.5) for kept in found.x[:n]]


_PRESOLVED, _MOST = 4_000, 20_000


def _constraints(
    sizes: np.ndarray,
    equations: int,
    makers: Sequence[int],
    reads: Sequence[Sequence[int]],
    needed: Sequence[int],
) -> tuple[Any, np.ndarray]:
    """Return the coefficients of the constraints that values are available and, in the last row, of their sizes.

    Returns:
      The matrix, and the lower bounds of the products of its rows with the variables, except for
        the last row.
    """
    n, made = len(sizes), np.array(makers)
    pairs = [(v, e) for e, values in enumerate(reads) for v in values if makers[v] != e]
    read, reader = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    there = np.concatenate([np.array(needed, dtype=np.int64), read])
    row = np.arange(len(there))
    columns = [there, n + made[there], n + reader, np.arange(n)]
    rows = [row, row, row[len(needed) :], np.full(n, len(there))]
    entries = [np.ones(len(there)), np.ones(len(there)), -np.ones(len(reader)), -sizes]
    i, j, x = map(np.concatenate, (rows, columns, entries))
    matrix = coo_array((x, (i, j)), shape=(len(there) + 1, n + equations)).tocsr()
    return matrix, (row < len(needed)).astype(float)
