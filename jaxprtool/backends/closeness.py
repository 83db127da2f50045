"""Whether two results are equal up to a tolerance."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from jaxprtool.backends.numpy_eval import words

__all__ = ["differ"]


def differ(a: Any, b: Any, rtol: float | None, atol: float) -> bool:
    """Whether two arrays differ: in type, in integers and booleans, or by more than atol + rtol |b| anywhere.

    The default of rtol is eps^(3/4) of the element type. NaNs are equal to NaNs.
    """
    a, b = np.asarray(words(a)), np.asarray(words(b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if not is_inexact(a.dtype):
        return a.tobytes() != b.tobytes()
    relative = float(ml_dtypes.finfo(a.dtype).eps) ** 0.75 if rtol is None else rtol
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        near = np.isclose(a.astype(wide), b.astype(wide), relative, atol, equal_nan=True)
    return not bool(near.all())


def is_inexact(dtype: np.dtype) -> bool:
    """Whether values of a type are rounded: floats and complex numbers, ml_dtypes' among them."""
    if dtype.kind in "fc":
        return True
    if dtype.kind != "V" or dtype.names:
        return False
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True
