"""Errors of rounding of many values at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.agreement import unit_of

__all__ = ["errors", "joined"]


def joined(values: Sequence[Any], *, scalars: bool) -> np.ndarray:
    """The elements of values of one type, one after the other; of scalars, or of arrays."""
    if scalars:
        return np.array(values)
    try:
        return np.concatenate(values).reshape(
            -1
        )  # quicker, and right where only the first axes differ
    except ValueError:
        return np.concatenate([x.reshape(-1) for x in values])


def errors(dtype: Any, own: np.ndarray, exact: np.ndarray, sizes: Sequence[int]) -> tuple[Any, Any]:
    """How far values are from the exact ones: of each, what `agreement.error_of` says.

    Args:
      dtype: the type of the values.
      own: their elements, in the wider type.
      exact: the elements of the exact values.
      sizes: how many elements each value has, none of them 0.
    """
    with np.errstate(all="ignore"):
        size = np.abs(exact)
        away = np.abs(own - exact)
        ulps = away / unit_of(dtype, size)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        most, worst, largest = (_most(v, starts) for v in (away, ulps, size))
        relative = np.where(largest > 0, most / np.where(largest > 0, largest, 1), 0.0)
    return worst.astype(np.float64), relative.astype(np.float64)


def _most(v: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The largest finite number of each part."""
    finite = np.isfinite(v)
    if not finite.all():
        v = np.where(finite, v, 0)
    return np.maximum.reduceat(v, starts)
