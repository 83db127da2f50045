"""Measure how far results are from each other."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.limits import finfo, iinfo
from jaxprtool.backends.numpy_eval import KeyArray
from jaxprtool.backends.tolerances import Tolerance, without_infinities
from jaxprtool.ir.dtypes import dtype_of

__all__ = [
    "Gap",
    "error_of",
    "gap",
    "is_integer",
    "larger",
    "least_and_bits",
    "not_finite",
    "powers_of_two",
    "unit_of",
]


class Gap(NamedTuple):
    """The difference of two results of one type.

    Attributes:
      differing: the number of elements that differ by more than the tolerance; in types without
        rounding, the number that differ.
      max_abs, max_rel, max_ulp: the largest difference of finite elements: absolute, relative, and
        in units in the last place.
      element: the index of the element that differs most; None where none does.
      finite: whether all elements of both are finite.
      rounded: whether they are of a type with rounding.
      zero_signs: whether an element is 0 in one and -0 in the other.
    """

    differing: int
    max_abs: float
    max_rel: float
    max_ulp: float
    element: tuple[int, ...] | None
    finite: bool
    rounded: bool = True
    zero_signs: bool = False


def larger(room: Any, x: Any, y: Any) -> Any:
    """Return the larger of `room` and sixteen times the difference of two results, elementwise.

    `room` is kept where the difference is not finite.
    """
    if isinstance(x, KeyArray) or (np.asarray(x).dtype.kind == "V" and np.asarray(x).dtype.names):
        return room
    wide = np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        size = 16 * np.abs(np.asarray(x).astype(wide) - np.asarray(y).astype(wide))
    return np.maximum(room, np.where(np.isfinite(size), size, 0.0))


def gap(
    a: Any,
    b: Any,
    rtol: float | None,
    atol: float | None,
    extra: Any = 0.0,
    *,
    alone: bool = False,
) -> Gap:
    """Compare two results.

    NaNs are equal, and zeros of both signs. Numbers of types with rounding are equal within the
    tolerance, or, where none is given, within what rounding explains (`backends.tolerances`).

    Args:
      a, b: arrays, or keys.
      rtol, atol: the tolerance; None: by the type.
      extra: an additional difference that is allowed, elementwise.
      alone: whether each element is judged by its own size; else rounding is judged by the largest element of the array.
    """
    x, y = (v.data if isinstance(v, KeyArray) else np.asarray(v) for v in (a, b))
    if x.dtype.kind == "V" and x.dtype.names is not None:
        return Gap(0, 0.0, 0.0, 0.0, None, True, False)
    if x.dtype.kind in "biu" or is_integer(x.dtype):
        differs = x != y
        size = np.abs(x.astype(np.float64) - y.astype(np.float64))
        index = _first(size + differs, differs)
        return Gap(int(differs.sum()), _most(size), _relative(size, x), 0.0, index, True, False)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    bits, dtype = int(finfo(x.dtype).nmant), dtype_of(x.dtype)
    assert dtype is not None
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        size = np.abs(x - y)
        largest = np.maximum(np.abs(x), np.abs(y))
        tolerance = Tolerance(rtol, atol, rounding=True)
        p, q = without_infinities(x, dtype), without_infinities(y, dtype)
        near, magnitudes = np.abs(p - q), np.maximum(np.abs(p), np.abs(q))
        room = tolerance.room(magnitudes, 0.0 if alone else _most(largest), dtype) + extra
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (near <= room) & (room > 0)
        ulp = size / np.ldexp(1.0, np.frexp(np.maximum(largest, 1e-300))[1] - 1 - bits)
        count = int((~same).sum())
        worst = np.where(np.isfinite(size), size / (room + 1e-300), np.inf)
    finite = bool(np.isfinite(x).all() and np.isfinite(y).all())
    return Gap(
        count,
        _most(size),
        _relative(size, largest),
        _most(ulp),
        _first(worst, ~same),
        finite,
        zero_signs=_other_zeros(x, y),
    )


def _other_zeros(x: np.ndarray, y: np.ndarray) -> bool:
    pairs = [(np.real(x), np.real(y)), (np.imag(x), np.imag(y))]
    return any(((p == 0) & (q == 0) & (np.signbit(p) != np.signbit(q))).any() for p, q in pairs)


def is_integer(dtype: np.dtype) -> bool:
    """Whether values of a type are integers, including those of ml_dtypes (int4)."""
    try:
        iinfo(dtype)
    except ValueError:
        return False
    return True


def _most(size: np.ndarray) -> float:
    finite = size[np.isfinite(size)]
    return float(finite.max(initial=0.0))


def _relative(size: np.ndarray, largest: np.ndarray) -> float:
    largest = np.abs(largest.astype(np.float64))
    some = np.isfinite(size) & (largest > 0) & np.isfinite(largest)
    return float((size[some] / largest[some]).max(initial=0.0)) if some.any() else 0.0


def _first(size: np.ndarray, differs: np.ndarray) -> tuple[int, ...] | None:
    if not differs.any():
        return None
    flat = int(np.where(differs, size, -math.inf).argmax())
    return tuple(int(i) for i in np.unravel_index(flat, size.shape))


def error_of(x: Any, exact: np.ndarray) -> tuple[float, float]:
    """Return the largest error of an array in units in the last place, and its largest error
    relative to the largest element.

    Elements that are not finite in both are left out. A unit is that of the type of x at the exact
    value.
    """
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        size = np.abs(exact)
        away = np.abs(x.astype(exact.dtype) - exact)
        relative = away / unit_of(x.dtype, size)
        most, worst, largest = (float(v.max(initial=0.0)) for v in (away, relative, size))
        if not math.isfinite(most + worst + largest):
            most, worst, largest = map(_most, (away, relative, size))
        return worst, most / largest if largest else 0.0


def not_finite(x: Any) -> int:
    """Return the number of elements that are NaN or infinite."""
    return int(np.size(x) - np.isfinite(x).sum())


def unit_of(dtype: np.dtype, size: np.ndarray) -> np.ndarray:
    """Return a unit in the last place of numbers of given magnitudes in a type, in double precision."""
    least, bits = least_and_bits(dtype)
    return np.maximum(powers_of_two(size) * 2.0**-bits, least)


_EXPONENT = np.int64(0x7FF << 52)


def powers_of_two(size: Any, out: Any = None) -> Any:
    """Return the largest power of two that is not larger than the magnitude of each element, 0 for 0.

    Args:
      size: the elements: f64 of either sign, or long double that are not negative.
      out: an array of f64 for the result, or None.
    """
    if size.dtype == np.float64:
        into = None if out is None else out.view(np.int64)
        return np.bitwise_and(size.view(np.int64), _EXPONENT, out=into).view(np.float64)
    return np.where(size > 0, np.ldexp(size.dtype.type(1), np.frexp(size)[1] - 1), 0)


@functools.cache
def least_and_bits(dtype: np.dtype) -> tuple[float, int]:
    """Return the smallest positive number of a type, and the number of bits after its binary point."""
    info = finfo(dtype)
    return float(info.smallest_subnormal), int(info.nmant)
