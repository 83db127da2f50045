"""Tolerances: which differences of rounded numbers count."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.limits import finfo
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.dtypes import DType

__all__ = ["Tolerance", "epsilon", "without_infinities"]


class Tolerance(NamedTuple):
    """Which differences of floats and complex numbers count.

    An infinity counts as the largest number of its type, which rounding may turn into it. With none
    of the four, all differences count.

    Attributes:
      rtol, atol: those over `atol + rtol * max(|a|, |b|)`.
      ulp: those over so many units in the last place.
      rounding: those that rounding does not explain: over eps^(2/3) of the type, relative to the
        larger element, or to the largest element of the array that differs at all.
    """

    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    rounding: bool = False

    def room(self, size: Any, scale: float, dtype: DType) -> Any:
        """Return how far elements may be apart, given their magnitudes, the largest magnitude,
        their type; 0 where `ulp` decides.

        The magnitudes are finite (`without_infinities`): with an infinite one everything would be
        within the tolerance.
        """
        if self.rtol is not None or self.atol is not None:
            return (self.atol or 0.0) + (self.rtol or 0.0) * size
        if self.rounding:
            least = max(
                scale, _smallest_normal(dtype.real)
            )  # subnormal numbers are rounded as the smallest normal one is
            return epsilon(dtype.real) ** (2 / 3) * np.maximum(size, least)
        return np.zeros_like(size)

    def exceeded(self, apart: Any, size: Any, ulps: Any, scale: float, dtype: DType) -> Any:
        """Return where elements differ, given their differences, magnitudes and distances, the
        largest magnitude, their type.
        """
        if self.ulp is not None:
            return ulps > self.ulp
        if self.rtol is None and self.atol is None and not self.rounding:
            return ulps > 0
        room = self.room(size, scale, dtype)
        return ~(apart <= room) | (room == 0) & (ulps > 0)


@functools.cache
def _smallest_normal(dtype: DType) -> float:
    return float(finfo(np_dtype(dtype)).smallest_normal)


@functools.cache
def epsilon(dtype: DType) -> float:
    """Return the distance from 1 to the next larger number of a float type."""
    return float(finfo(np_dtype(dtype)).eps)


def without_infinities(x: Any, dtype: DType) -> Any:
    """Return elements of a type in double precision, with the largest numbers of the type in the
    place of infinities.
    """
    largest = float(finfo(np_dtype(dtype.real)).max)
    return np.nan_to_num(x, nan=np.nan, posinf=largest, neginf=-largest)
