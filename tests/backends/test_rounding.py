"""Errors of many values at once are those of each alone."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from jaxprtool.backends.agreement import error_of, unit_of
from jaxprtool.backends.rounding import errors, widened

SHAPES = [(3,), (2, 5), (1,), (70, 80), (40_000,), (3, 2, 2), (5_000,), (7,)]
SPECIAL = [0.0, -0.0, 1e-45, 1e-40, -1e-38, 1.0, 2.0, 1 - 2**-24, 3e38, np.inf, -np.inf, np.nan]


def values(rng: np.random.Generator, dtype: object, scalars: bool) -> list[np.ndarray]:
    found = []
    for shape in [()] * 20 if scalars else SHAPES:
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-40, 38, shape)
        special = rng.choice(SPECIAL, shape)
        x = np.where(rng.random(shape) < 0.3, special, x)
        found.append(np.asarray(x).astype(dtype)[()])
    return found


@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.float64]
)
def test_errors_of_many_values_are_those_of_each(dtype, scalars):
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        own = values(rng, dtype, scalars)
        if dtype is np.float64:
            wide = np.longdouble
        else:
            wide = np.complex128 if dtype is np.complex64 else np.float64
        exact = [
            [(x.astype(wide) * wide(1 + e * rng.random(x.shape)))[()] for x in own]
            for e in (1e-7, 1e-3)
        ]
        found = errors(own[0].dtype, widened(own, lambda x: x.astype(wide)), exact)
    assert found.shape == (2, 2, len(own))
    for rows, others in zip(found, exact, strict=True):
        for i, (x, y) in enumerate(zip(own, others, strict=True)):
            np.testing.assert_allclose(rows[:, i], error_of(x, np.asarray(y)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_unit_is_the_distance_to_the_next_number(dtype):
    tiny, most = (float(x) for x in (ml_dtypes.finfo(dtype).tiny, ml_dtypes.finfo(dtype).max))
    sizes = np.array([0.0, tiny / 4, tiny, 1.0, 1.5, 2.0, 3.0, most / 2], np.float64)
    with np.errstate(all="ignore"):
        x = sizes.astype(dtype)
        after = np.nextafter(x, np.asarray(np.inf, dtype)).astype(np.float64)
    np.testing.assert_array_equal(unit_of(np.dtype(dtype), sizes), after - x.astype(np.float64))
