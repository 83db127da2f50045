"""Whether results are JAX's: exactly, or up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.ir.dtypes import DType, dtype_of

__all__ = ["Rounding", "compare"]

# Where XLA's numbers are less exact than their type: (primitive, tolerance), each with the reason.
_INEXACT = {
    # its continued fraction in 32 bits loses two digits, and SciPy's does not
    "regularized_incomplete_beta": 3e-5,
}


class Rounding:
    """How far results may be from JAX's.

    JAX's own relative tolerances by dtype, that of the least exact among a result's type and those of the arguments.

    Args:
      group: the primitive.
      dtypes: the arguments' element types.
      derivative: whether the results are derivatives, for which JAX has other tolerances.
    """

    def __init__(self, group: str, dtypes: Sequence[Any], derivative: bool):
        from jax._src import public_test_util as util

        self.table = util.default_gradient_tolerance if derivative else util.default_tolerance()
        # JAX's 1e-15 for 64 bits is for the same operations in another order; for other implementations of special
        # functions its tests take 1e-12 and more.
        self.derivative = derivative
        self.least = max([1e-12, _INEXACT.get(group, 0), *map(self._of, dtypes)])

    def _of(self, dtype: Any) -> float:
        return float(self.table.get(dtype, 0))

    def scale(self, values: np.ndarray, dtype: DType) -> float:
        """The size to which rounding errors of results are relative.

        Where derivatives in 16 bits cancel, it is that of the terms: XLA computes with 32 bits, and rounds once.
        """
        finite = np.abs(values[np.isfinite(values)])
        cancels = self.derivative and dtype.bits <= 16
        return max(float(finite.max(initial=0)), 1.0 if cancels else 1e-3)

    def tolerance(self, dtype: Any) -> float:
        """The tolerance for results of a dtype."""
        return max(self.least, self._of(dtype))


def compare(actual: Sequence[Any], expected: Sequence[Any], rounding: Rounding) -> None:
    """Raise AssertionError unless shapes and dtypes are equal, and values too, up to rounding."""
    assert len(actual) == len(expected), f"{len(actual)} results, and JAX has {len(expected)}"
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        _compare_one(f"result {i}", a, b, rounding)


def _compare_one(what: str, a: Any, b: Any, rounding: Rounding) -> None:
    if isinstance(b, jt.KeyArray):
        assert isinstance(a, jt.KeyArray) and a.impl == b.impl, f"{what}: {a!r} is not {b!r}"
        a, b = a.data, b.data
    a, b = np.asarray(a), np.asarray(b)
    types = f"{what}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}"
    assert (a.shape, a.dtype) == (b.shape, b.dtype), types
    dtype = dtype_of(b.dtype)
    if dtype is None or dtype.kind == "0":
        return
    if not dtype.is_inexact:
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tol = rounding.tolerance(b.dtype)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    atol = tol * rounding.scale(b, dtype)
    np.testing.assert_allclose(a, b, rtol=tol, atol=atol, err_msg=what)
