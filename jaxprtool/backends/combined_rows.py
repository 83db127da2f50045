"""Combine rows with those of a table at given places; many sums are computed by SciPy's sparse products."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["combine_rows"]

_MANY = 50_000  # elements from which loading `scipy.sparse` is worth while
_MOST = np.iinfo(np.int32).max
# rows up to which the index arrays of the sparse matrix are kept for the next call
_KEPT = 1_000_000
# Up to this number of columns, one pass per column is faster than one over all elements, which needs their positions.
_FEW_COLUMNS = 16


def combine_rows(ufunc: Any, table: Any, places: Any, rows: Any) -> None:
    """Combine `table[places[k]]` with `rows[k]` for each k in turn, in place.

    Args:
      ufunc: the operation: `numpy.add`, `numpy.multiply`, `numpy.minimum`, `numpy.maximum`.
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
    """Add the product of a sparse matrix, with a 1 in each of its m columns, and the rows to the
    table; whether SciPy can.

    SciPy's loop goes through the columns in order, and adds to what the table holds: every sum
    equals that of `np.add.at`. Its public products add to zeros instead, which changes the order of
    the first sum and loses the sign of -0.0.
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
    """Return the values of the sparse matrix, and where its columns end.

    Cached: they are the same at each call of a program.
    """
    return np.ones(m, dtype), np.arange(m + 1, dtype=np.int32)
