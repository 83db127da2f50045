"""Sums of many rows by SciPy's sparse product are those of `np.add.at`, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from jaxprtool.backends import combined_rows
from jaxprtool.backends.combined_rows import combine_rows

DTYPES = (
    "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"
)


@pytest.mark.parametrize("shape", [(5, 400, 1), (50, 60, 9), (3, 100, 17)])
@pytest.mark.parametrize("dtype", DTYPES.split())
def test_sums_are_those_of_numpy(dtype, shape, monkeypatch):
    monkeypatch.setattr(combined_rows, "_MANY", 0)
    n, m, columns = shape
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(n, columns)) * 100).astype(dtype)
    rows = (rng.normal(size=(m, columns)) * 100).astype(dtype)
    places = rng.integers(0, n, m)
    if table.dtype.kind in "fc":  # the sign of zero, and what is not finite
        places = np.where(places == 0, 1, places)
        places[0] = 0
        table[0] = rows[0] = -0.0
        rows[5], rows[7] = np.nan, np.inf
    expected, got = table.copy(), table.copy()
    np.add.at(expected, places, rows)
    combine_rows(np.add, got, places, rows)
    assert expected.tobytes() == got.tobytes()
    assert combined_rows._add_by_product(got, places, rows) == (dtype != "float16")


@pytest.mark.parametrize("name", ["multiply", "minimum", "maximum"])
@pytest.mark.parametrize("columns", [3, 20])
def test_other_combinations(name, columns):
    rng = np.random.default_rng(1)
    table, rows, places = (
        rng.normal(size=(5, columns)),
        rng.normal(size=(9, columns)),
        np.arange(9) % 5,
    )
    expected, got = table.copy(), table.copy()
    getattr(np, name).at(expected, places, rows)
    combine_rows(getattr(np, name), got, places, rows)
    assert (expected == got).all()
