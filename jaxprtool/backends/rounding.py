"""Rounding errors of many values at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.agreement import least_and_bits, powers_of_two

__all__ = ["Widened", "errors", "keep_freed_memory", "widened"]

_CHUNK = 1 << 14  # elements handled at a time, so that all temporary arrays fit in the caches
_LARGE = 1 << 12  # elements from which a value is handled alone, not joined with others


_KEPT = (32 << 20) - (1 << 16)  # bytes: the largest block from which glibc takes the hint


def keep_freed_memory() -> None:
    """Make the C library keep the memory of arrays that are freed for the next ones.

    glibc returns a large block to the system when it is freed, unless a larger one was freed
    before. To get each array's pages from the system anew takes longer than to compute it.
    """
    np.empty(_KEPT, np.uint8)


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
        shape = some[0].shape
        if all(x.shape == shape for x in some):
            found.values.extend(flat.reshape(len(some), *shape))
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
      exact: several lists of exact values. One of many elements that is the value of `own` itself
        is not looked at: its error is 0.

    Returns:
      For each list two rows, f64[len(exact), 2, len(own.values)]: units in the last place, and the
        error relative to the largest element.
    """
    found = np.zeros((len(exact), 2, len(own.values)))
    at, chunk = 0, _Chunk(dtype)
    with np.errstate(all="ignore"):
        for flat, sizes in zip(own.flat, own.sizes, strict=True):
            end = at + len(sizes)
            for values, rows in zip(exact, found, strict=True):
                if len(sizes) > 1 or values[at] is not own.values[at]:
                    _errors(chunk, flat, _joined(values[at:end]), sizes, rows[:, at:end])
            at = end
    return found


def _errors(
    chunk: _Chunk, own: np.ndarray, exact: np.ndarray, sizes: Sequence[int], found: Any
) -> None:
    starts = np.cumsum([0, *sizes[:-1]]) if 1 < len(sizes) < len(own) else None
    pieces: list[Sequence[Any]] = []
    for start in range(0, len(own), _CHUNK):  # a large value has several chunks
        pair = own[start : start + _CHUNK], exact[start : start + _CHUNK]
        pieces.append(chunk.largest(*pair, starts, scalars=len(own) == len(sizes)))
    most, worst, largest = pieces[0] if len(pieces) == 1 else np.maximum.reduce(pieces)
    found[0] = worst * 2.0**chunk.bits
    found[1] = np.where(largest > 0, most / np.where(largest > 0, largest, 1), 0.0)


class _Chunk:
    """Finds the largest errors of a chunk of elements, in arrays that are used again for the next one.

    New arrays would take longer than what is computed in them.

    Attributes:
      bits: the number of bits of the type after the binary point.
    """

    def __init__(self, dtype: Any):
        self.bits, self._least = _least_powers(dtype)
        self._away, self._unit, self._ulps, self._size = (np.empty(_CHUNK) for _ in range(4))
        self._small = False

    def largest(self, own: np.ndarray, exact: np.ndarray, starts: Any, *, scalars: bool) -> Any:
        """Return the largest finite error, the largest one in powers of two of the exact numbers, and the largest exact number.

        Args:
          own, exact: the elements.
          starts: where each value begins; None for a single one, and for scalars.
          scalars: whether each element is a value.
        """
        n = len(own)
        if exact.dtype == np.float64:
            away, unit, ulps = self._away[:n], self._unit[:n], self._ulps[:n]
            np.abs(np.subtract(own, exact, out=away), out=away)
            if starts is None and not scalars:
                one = self._of_one(exact, away, unit, ulps)
                if math.isfinite(sum(one)):
                    return np.array(one)[:, None]
            else:
                size = np.abs(exact, out=self._size[:n])
                np.maximum(powers_of_two(size, unit), self._least[:n], out=unit)
                parts = away, np.divide(away, unit, out=ulps), size
                of_each = (
                    parts if starts is None else [np.maximum.reduceat(x, starts) for x in parts]
                )
                found = np.array(of_each)
                if np.isfinite(found).all():
                    return found
        size, away = np.abs(exact), np.abs(own - exact)
        unit = np.maximum(powers_of_two(size), self._least[:n])
        return [_most(v, starts, scalars=scalars) for v in (away, away / unit, size)]

    def _of_one(
        self, exact: np.ndarray, away: np.ndarray, unit: np.ndarray, ulps: np.ndarray
    ) -> Sequence[Any]:
        """Return the same of the elements of one value; `argmax` takes half the time of `max`."""
        powers_of_two(exact, unit)
        largest = max(exact[exact.argmax()], -exact[exact.argmin()])
        most = away[away.argmax()]
        k = 0
        if not self._small:
            k = np.divide(away, unit, out=ulps).argmax()
            # a smaller unit than there is makes an error too large: if that of the largest is none, none matters
            self._small = not unit[k] >= self._least[0]
        if self._small:
            np.maximum(unit, self._least[: len(unit)], out=unit)
            k = np.divide(away, unit, out=ulps).argmax()
        return most, ulps[k], largest


@functools.cache
def _least_powers(dtype: Any) -> tuple[int, np.ndarray]:
    """Return the number of bits of a type after the binary point, and its smallest power of two
    with all of them, repeated.
    """
    least, bits = least_and_bits(dtype)
    return bits, np.full(_CHUNK, least * 2.0**bits)  # NumPy takes four times as long for a scalar


def _most(v: np.ndarray, starts: Any, *, scalars: bool) -> np.ndarray:
    """Return the largest finite number of each value."""
    v = np.where(np.isfinite(v), v, 0)
    if scalars:
        return v
    return v.max(keepdims=True) if starts is None else np.maximum.reduceat(v, starts)


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
