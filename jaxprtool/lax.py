"""Functions to write programs with: one for each primitive, and a few that create arrays.

    from jaxprtool import lax
    y = lax.add(lax.sin(x), lax.full_like(x, 1))

Primitives do not promote element types; the operators (`x + y`) do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ops import *
from jaxprtool.ops import operators as operators
from jaxprtool.ops.arrays.promotion import as_dtype, broadcast_to, dtype_named, dtype_of_value
from jaxprtool.ops.arrays.shaping import SHAPING

full_like, zeros_like, ones_like = (SHAPING[n] for n in ("full_like", "zeros_like", "ones_like"))


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """Return an array of one value.

    Args:
      shape: its shape.
      fill_value: the value, a scalar.
      dtype: its element type; by default that of the value (f64, i64 or bool for Python scalars).
    """
    target = dtype_of_value(fill_value) if dtype is None else dtype_named(dtype)
    return broadcast_to(as_dtype(fill_value, target), tuple(shape))


def zeros(shape: Sequence[int], dtype: Any = "float64") -> Any:
    """Return an array of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: Any = "float64") -> Any:
    """Return an array of ones."""
    return full(shape, 1, dtype)
