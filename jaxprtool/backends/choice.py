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
    equation is computed again, for which all values that the equation reads have to be there. (Each equation is computed again at most
    once; Jain et al. 2020, "Checkmate", where a value may be computed several times.)

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
    n, m = len(sizes), len(costs)
    rows: list[
        tuple[int, int, int]
    ] = []  # (row, variable, coefficient): kept values, then equations
    lower: list[float] = []

    def there(value: int, unless: int | None) -> None:
        row = len(lower)
        rows.extend([(row, value, 1), (row, n + makers[value], 1)])
        if unless is not None:
            rows.append((row, n + unless, -1))
        lower.append(1.0 if unless is None else 0.0)

    for value in needed:
        there(value, None)
    for equation, values in enumerate(reads):
        for value in values:
            there(value, equation)
    row = len(lower)
    scale = max(limit, 1)
    rows += [(row, value, -size) for value, size in enumerate(sizes)]
    lower.append(-float(limit))
    r, c, v = (np.array(column) for column in zip(*rows, strict=True))
    v = np.where(r == row, v / scale, v)
    lower[row] /= scale
    matrix = coo_array((v, (r, c)), shape=(len(lower), n + m))
    # between choices of one cost the one that keeps less
    total = max(sum(costs), 1)
    small = 1e-6 / max(sum(sizes), 1)
    objective = np.array([*[s * small for s in sizes], *[x / total for x in costs]])
    found = milp(
        objective,
        constraints=LinearConstraint(matrix.tocsr(), np.array(lower), np.inf),
        integrality=np.ones(n + m),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds},
    )
    return None if found.x is None else [bool(x > 0.5) for x in found.x[:n]]
