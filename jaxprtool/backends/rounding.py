"""Rounding errors of many values at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.agreement import least_and_bits, powers_of_two

__all__ = ["Widened", "errors", "widened"]

_CHUNK = 1 << 14  # elements handled at a time, so that all temporary arrays fit in the caches
_LARGE = 1 << 12  # elements from which a value is handled alone, not joined with others


class Widened(NamedTuple):
    """Values of one type converted to a wider one.

    Attributes:
      values: the values.
      flat: the elements of consecutive groups of values, each group concatenated.
      sizes: for each group the number of elements of each of its values.
    """

    values: list[Any]
    flat: list[np.ndarray]
    sizes: list[list[int]]


def widened(values: Sequence[Any], wide: Callable[[Any], Any]) -> Widened:
    """Convert values of one type to a wider one; small ones are converted together.

    Args:
      values: all of them scalars, or all of them arrays with elements.
      wide: converts an array to the wider type.
    """
    found = Widened([], [], [])
    for some in _chunks(values):
        flat, at = wide(_joined(some)), 0
        found.flat.append(flat)
        found.sizes.append([x.size for x in some])
        if not some[0].shape:
            found.values.extend(flat)
            continue
        for x in some:
            part, shape = flat[at : at + x.size], x.shape
            found.values.append(part if len(shape) == 1 else part.reshape(shape))
            at += x.size
    return found


def errors(dtype: Any, own: Widened, exact: Sequence[Sequence[Any]]) -> np.ndarray:
    """Return how far values are from exact ones: for each, the result of `agreement.error_of`.

    Args:
      dtype: the type of the values.
      own: the values.
      exact: several lists of exact values.

    Returns:
      For each list two rows, f64[len(exact), 2, len(own.values)]: units in the last place, and the
        error relative to the largest element.
    """
    found = np.empty((len(exact), 2, len(own.values)))
    at = 0
    with np.errstate(all="ignore"):
        for flat, sizes in zip(own.flat, own.sizes, strict=True):
            end = at + len(sizes)
            for values, rows in zip(exact, found, strict=True):
                _errors(dtype, flat, _joined(values[at:end]), sizes, rows[:, at:end])
            at = end
    return found


def _errors(
    dtype: Any, own: np.ndarray, exact: np.ndarray, sizes: Sequence[int], found: Any
) -> None:
    bits, least = _least_powers(dtype)
    pieces: list[list[Any]] = []
    for start in range(0, len(own), _CHUNK):  # a large value has several chunks
        size = np.abs(exact[start : start + _CHUNK])
        away = own[start : start + _CHUNK] - exact[start : start + _CHUNK]
        away = np.abs(away, out=None if away.dtype.kind == "c" else away)
        unit = np.maximum(powers_of_two(size), least[: len(size)])
        ulps = np.divide(away, unit, out=unit)
        pieces.append([_most(v, sizes) for v in (away, ulps, size)])
    most, worst, largest = map(_largest, zip(*pieces, strict=True))
    found[0] = worst * 2.0**bits
    found[1] = np.where(largest > 0, most / np.where(largest > 0, largest, 1), 0.0)


@functools.cache
def _least_powers(dtype: Any) -> tuple[int, np.ndarray]:
    """Return the number of bits of a type after the binary point, and its smallest power of two
    with all of them, repeated.
    """
    least, bits = least_and_bits(dtype)
    return bits, np.full(_CHUNK, least * 2.0**bits)  # NumPy takes four times as long for a scalar


def _largest(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.maximum.reduce(parts)


def _most(v: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return the largest finite number of each part."""
    found = _greatest(v, sizes)
    if np.isfinite(found).all():
        return found
    return _greatest(np.where(np.isfinite(v), v, 0), sizes)


def _greatest(v: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The greatest number of each part, or NaN."""
    if len(sizes) == 1:
        return v.max(keepdims=True)
    if len(v) == len(sizes):
        return v
    return np.maximum.reduceat(v, np.cumsum([0, *sizes[:-1]]))


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split values into parts of a limited number of elements, or one value."""
    if values and not values[0].shape:
        for start in range(0, len(values), _CHUNK):
            yield values[start : start + _CHUNK]
        return
    start = total = 0
    for i, x in enumerate(values):
        if total and (total + x.size > _CHUNK or x.size >= _LARGE):
            yield values[start:i]
            start, total = i, 0
        total += x.size
    if start < len(values):
        yield values[start:]


def _joined(values: Sequence[Any]) -> np.ndarray:
    """Concatenate the elements of values of one type; all of them scalars, or all of them arrays."""
    if not values[0].shape:
        return np.array(values)
    if len(values) == 1:
        return values[0].reshape(-1)
    try:  # faster, and possible where only the first axes differ
        return np.concatenate(values).reshape(-1)
    except ValueError:
        return np.concatenate([x.reshape(-1) for x in values])
