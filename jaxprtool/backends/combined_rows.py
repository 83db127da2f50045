"""Rows combined with those of a table at given places: sums by SciPy's sparse products where there are many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["combine_rows"]

_MANY = 50_000  # elements from which loading `scipy.sparse` is worth while
_MOST = np.iinfo(np.int32).max
_KEPT = 1_000_000  # rows up to which what describes their sparse matrix is kept for the next call
# Up to so many, a pass for each beats one over all elements, whose places would have to be computed.
_FEW_COLUMNS = 16


def combine_rows(ufunc: Any, table: Any, places: Any, rows: Any) -> None:
    """Combine `table[places[k]]` with `rows[k]` for each k in turn, in place.

    Args:
      ufunc: of two operands: `numpy.add`, `numpy.multiply`, `numpy.minimum`, `numpy.maximum`.
      table: array[n, columns], contiguous.
      places: int[m] below n; one may occur many times.
      rows: array[m, columns] of the table's type.
    """
    if ufunc is np.add and rows.size >= _MANY and _add_by_product(table, places, rows):
        return
    columns = rows.shape[1]
    if columns <= _FEW_COLUMNS:
        for column in range(columns):
            ufunc.at(table[:, column], places, rows[:, column])
    else:
        places = (places[:, None] * columns + np.arange(columns)).reshape(-1)
        ufunc.at(table.reshape(-1), places, rows.reshape(-1))


def _add_by_product(table: Any, places: Any, rows: Any) -> bool:
    """Add a sparse matrix with a 1 in each of its m columns times the rows to the table; whether SciPy can.

    SciPy's loop goes through the columns in their order, and adds to what is there: every sum is that of `np.add.at`.
    Its public products add to zeros instead, which loses the order of the first sum and the sign of -0.0.
    """
    rows = np.ascontiguousarray(rows, table.dtype)
    if table.dtype.kind == "c":  # parts are added apart, and 1 times an infinity would be NaN
        real = table.real.dtype
        table, rows = table.view(real), rows.view(real)
    n, m, columns = len(table), len(rows), rows.shape[1]
    if table.dtype.kind not in "fiu" or table.dtype.char == "e" or max(n, m) >= _MOST:
        return False
    try:
        from scipy.sparse._sparsetools import csc_matvecs  # noqa: PLC0415 (few programs need it)
    except ImportError:
        return False
    make = _ones_and_ends if m <= _KEPT else _ones_and_ends.__wrapped__
    ones, ends = make(m, table.dtype)
    places = places.astype(np.int32, copy=False)
    csc_matvecs(n, m, columns, ends, places, ones, rows.reshape(-1), table.reshape(-1))
    return True


@lru_cache(maxsize=4)
def _ones_and_ends(m: int, dtype: Any) -> tuple[Any, Any]:
    """The values of the sparse matrix, and where its columns end: the same at each call of a program."""
    return np.ones(m, dtype), np.arange(m + 1, dtype=np.int32)
