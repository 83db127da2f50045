"""Whether results are JAX's: exactly, or up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.ir.dtypes import dtype_of

__all__ = ["compare"]


def compare(
    name: str, actual: Sequence[Any], expected: Sequence[Any], *, derivative: bool = False
) -> None:
    """Raise AssertionError unless shapes and dtypes are equal, and values too, up to rounding."""
    assert len(actual) == len(expected), f"{len(actual)} results, and JAX has {len(expected)}"
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        _compare_one(f"result {i}", a, b, derivative)


def _compare_one(what: str, a: Any, b: Any, derivative: bool) -> None:
    if isinstance(b, jt.KeyArray):
        assert isinstance(a, jt.KeyArray) and a.impl == b.impl, f"{what}: {a!r} is not {b!r}"
        a, b = a.data, b.data
    a, b = np.asarray(a), np.asarray(b)
    assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}"
    dtype = dtype_of(b.dtype)
    if dtype is None or dtype.kind == "0":
        return
    if not dtype.is_inexact:
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tol = _tolerance(b.dtype, derivative)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    size = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(size, 1e-3), err_msg=what)


def _tolerance(dtype: Any, derivative: bool) -> float:
    """JAX's own relative tolerances by dtype, for values and for derivatives.

    JAX's 1e-15 for 64 bits is for the same operations in another order; for other implementations of special
    functions its tests take 1e-12 or more.
    """
    from jax._src import public_test_util as util

    table = util.default_gradient_tolerance if derivative else util.default_tolerance()
    return max(float(table[dtype]), 1e-12)
