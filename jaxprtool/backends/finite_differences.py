"""Directional derivatives of functions on arrays by central differences, with estimates of their errors.

The steps decrease by a constant factor, and Richardson's extrapolation removes the powers of the
step in the error (Ridders, Advances in Engineering Software 4, 1982). Each element of a result
takes the extrapolated value with the least error, which is estimated from its neighbours and from
the rounding of the function's values. Where the slopes on the two sides do not approach each other
the function has a kink or a jump there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.limits import finfo
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.dtypes import DType

__all__ = [
    "Estimate",
    "Steps",
    "basis",
    "by_complex_step",
    "directions",
    "dot",
    "estimate",
    "longest",
    "smallest_normal",
    "steps_for",
    "wide",
]

_FEW_BITS = 2.0**-16  # types with a larger relative error have few bits
# relative change of the slopes; a smaller one is due to rounding in the function
_SMALLEST_KINK = 1e-6
Function = Callable[[Sequence[Any]], Sequence[Any]]


class Steps(NamedTuple):
    """The steps of the differences, relative to the direction.

    Attributes:
      sizes: the steps, the largest first.
      factor: the ratio of each step to the next.
      epsilon: the relative error of a value of the function.
      tiny: values with a smaller magnitude have the error of this magnitude (denormal numbers).
    """

    sizes: tuple[float, ...]
    factor: float
    epsilon: float
    tiny: float = 0.0


class Estimate(NamedTuple):
    """The derivative of one result along a direction, elementwise.

    Attributes:
      value: the derivative, f64 or c128.
      error: a bound on its distance from the true derivative; infinite where no difference is
        finite.
      kink: whether the slopes on the two sides differ at the smallest steps; rounding may cause
        this too.
      firm: whether they differ by more than rounding explains, which would drive them ever further
        apart.
      low, high: the smaller and the larger of the two slopes, for real results; -inf and inf at a
        jump.
      size: the absolute value of the result itself.
    """

    value: np.ndarray
    error: np.ndarray
    kink: np.ndarray
    firm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size: np.ndarray


def fraction_bits(dtype: DType) -> int:
    """Return the number of bits after the binary point of a floating or complex type."""
    return int(finfo(np_dtype(dtype.real)).nmant)


def steps_for(bits: int, size: float | None = None, tiny: float = 0.0, *, finer: int = 0) -> Steps:
    """Return the steps for values with so many bits after the binary point.

    Args:
      bits: those of the coarsest type that the function computes with.
      size: the smallest step, where the caller chooses it.
      tiny: the smallest normal number of the types, the largest of them.
      finer: the number of additional, ever smaller steps: fewer of them cross a nearby kink.
    """
    epsilon = 2.0**-bits
    if size is not None:
        return Steps((4 * size, 2 * size, size), 2.0, epsilon, tiny)
    first, count, factor = (5, 7, 4) if bits > 40 else (4, 5, 4) if bits > 16 else (2, 4, 2)
    sizes = tuple(2.0**-first / factor**k for k in range(count + finer))
    return Steps(sizes, float(factor), epsilon, tiny)


def smallest_normal(dtype: DType) -> float:
    """Return the smallest normal number of a floating or complex type."""
    return float(finfo(np_dtype(dtype.real)).smallest_normal)


def wide(x: Any) -> np.ndarray:
    """Return an array in the precision in which differences are computed: f64 or c128."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def directions(args: Sequence[Any], seed: int, smallest: float) -> list[np.ndarray]:
    """Return a random direction for each argument, such that a step of size 1 is of the size of the argument.

    It is relative to each element, which keeps the step inside of the domain of functions such as
    log. For an element that is zero it is as large as the other elements.

    Args:
      args: the arguments, of floating or complex types.
      seed: the seed of the random numbers.
      smallest: the smallest step; the direction is changed so that adding this multiple of it is
        exact.
    """
    rng = np.random.default_rng([7, seed])
    found = []
    for arg in args:
        x = wide(arg)
        sign = rng.choice([-1.0, 1.0], x.shape) * rng.uniform(0.5, 1.0, x.shape)
        if x.dtype.kind == "c":
            sign = sign + 1j * rng.choice([-1.0, 1.0], x.shape) * rng.uniform(0.5, 1.0, x.shape)
        size = np.abs(x)
        size = np.minimum(np.where(size > 0, size, _typical(size)), longest(arg))
        found.append(_exact(arg, sign * size, smallest))
    return found


def basis(args: Sequence[Any], which: int, element: int, smallest: float) -> list[np.ndarray]:
    """Return the direction along one element of one argument, with the magnitude of that element,
    or else of the argument.
    """
    found = [np.zeros_like(wide(x), order="C") for x in args]
    x = wide(args[which])
    size = np.abs(x)
    typical = size.reshape(-1)[element] or _typical(size)
    typical = min(typical, longest(args[which]))
    found[which].reshape(-1)[element] = typical  # `.flat` takes 32 axes at most
    found[which] = _exact(args[which], found[which], smallest)
    return found


def _typical(size: np.ndarray) -> float:
    """Return the median of the elements that are finite and not zero; 1 where there are none."""
    some = size[np.isfinite(size) & (size > 0)]
    return float(np.median(some)) if some.size else 1.0


def longest(x: Any) -> float:
    """Return how large the elements of a tangent of a value may be without causing overflow at once."""
    return float(finfo(np.asarray(x).dtype).max) / 16


def _exact(arg: Any, direction: np.ndarray, smallest: float) -> np.ndarray:
    """Return the direction, changed so that `arg + smallest * direction` has no rounding."""
    moved = _moved(arg, direction, smallest)
    with np.errstate(all="ignore"):
        exact = (wide(moved) - wide(arg)) / smallest
    return np.where(np.isfinite(exact), exact, 0.0)


def _moved(arg: Any, direction: np.ndarray, step: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(wide(arg) + step * direction).astype(np.asarray(arg).dtype)


def estimate(
    f: Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]],
    args: Sequence[Any],
    direction: Sequence[np.ndarray],
    steps: Steps,
    rough: Sequence[Any] = (),
) -> list[Estimate]:
    """Return the derivative of each result of f at `args` along a direction.

    Args:
      f: takes several points, each a list of arrays like `args`, and returns the results at each, arrays of
        floating or complex types.
      args: the point.
      direction: for each argument, f64 or c128.
      steps: see `steps_for`.
      rough: how far rounding moves each result, where that is known to be more than its own.
    """
    sides = [s for h in steps.sizes for s in (h, -h)]
    moved = [[_moved(x, t, s) for x, t in zip(args, direction, strict=True)] for s in sides]
    at, *found = [[*map(wide, outs)] for outs in f([args, *moved])]
    pairs = [*zip(found[::2], found[1::2], strict=True)]
    # with few bits, a result may be rounded as the larger values that it is computed from
    among = max(map(_largest, at), default=0.0) if steps.epsilon > _FEW_BITS else 0.0
    with np.errstate(all="ignore"):
        return [
            _estimate(
                y,
                [(plus[k], minus[k]) for plus, minus in pairs],
                steps,
                among,
                rough[k] if rough else 0.0,
            )
            for k, y in enumerate(at)
        ]


def _largest(x: np.ndarray) -> float:
    size = np.abs(x)
    return float(size.max(initial=0.0, where=np.isfinite(size)))


def _estimate(
    y: np.ndarray, pairs: Sequence[Any], steps: Steps, among: float, rough: Any
) -> Estimate:
    central = [(p - m) / (2 * h) for (p, m), h in zip(pairs, steps.sizes, strict=True)]
    noise = [
        np.maximum(x, rough / h)
        for x, h in zip(_noise(y, pairs, central, steps, among), steps.sizes, strict=True)
    ]
    value, error = _extrapolated(central, noise, steps.factor)
    kink, firm, low, high, hidden = _sides(y, pairs, noise, steps)
    return Estimate(value, np.maximum(error, hidden), kink, firm, low, high, np.abs(y))


def _noise(
    y: np.ndarray, pairs: Sequence[Any], central: Sequence[Any], steps: Steps, among: float
) -> list[np.ndarray]:
    """Return the rounding error of the difference of each step, which is proportional to the inverse of the step.

    It is at least the error of the values (or of a tenth of the largest value, from which the
    others may be computed). It is also at least what the last two differences show of the rounding
    inside of f, at the element and typically: two differences may be near each other by chance.
    """
    size = np.maximum(np.abs(y), np.maximum(np.abs(pairs[0][0]), np.abs(pairs[0][1])))
    size = np.where(np.isfinite(size), size, np.abs(y))
    size = np.maximum(size, 0.1 * max(_largest(size), among))
    size = np.maximum(size, steps.tiny)
    seen = np.abs(central[-1] - central[-2])
    seen = np.where(np.isfinite(seen), seen, 0.0)
    last = steps.sizes[-1]
    usual = np.median(seen / np.maximum(size, steps.tiny or 1e-300)) if seen.size else 0.0
    seen = np.maximum(seen, 2 * usual * size)
    return [np.maximum(2 * steps.epsilon * size / h, seen * last / h) for h in steps.sizes]


def _extrapolated(
    central: Sequence[np.ndarray], noise: Sequence[np.ndarray], factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the extrapolated differences, and its error."""
    best, error = central[0], np.full(np.shape(central[0]), np.inf)
    row: list[np.ndarray] = [central[0]]
    for d, rounding in zip(central[1:], noise[1:], strict=True):
        above, row = row, [d]
        for j, old in enumerate(above):
            power = factor ** (2 * (j + 1))
            value = (power * row[j] - old) / (power - 1)
            e = np.maximum(np.abs(value - row[j]), np.abs(value - old)) + rounding
            better = e < error
            best, error = np.where(better, value, best), np.where(better, e, error)
            row.append(value)
    return best, error


def _sides(
    y: np.ndarray, pairs: Sequence[Any], noise: Sequence[np.ndarray], steps: Steps
) -> tuple[np.ndarray, ...]:
    """Compare the slopes on the two sides.

    Returns:
      Whether they stay apart; whether they do so without growing apart; the smaller and the larger
        slope, at the smallest step that shows them above the rounding, infinite at a jump; and,
        where no step does, half of the remaining gap at a step of 0, extrapolated linearly from the
        gaps at the two largest steps: a kink may hide in the rounding.
    """
    slopes = [((p - y) / h, (y - m) / h) for (p, m), h in zip(pairs, steps.sizes, strict=True)]
    gaps = [np.abs(right - left) for right, left in slopes]
    kink = firm = np.zeros(np.shape(y), bool)
    low, high = np.real(slopes[-1][0]), np.real(slopes[-1][1])
    left = (steps.factor * gaps[1] - gaps[0]) / (2 * (steps.factor - 1))
    hidden = np.maximum(left, 0.0)
    for k in range(1, len(gaps)):
        shown = gaps[k] > 8 * noise[k]
        stays = gaps[k] > (1 + 1 / steps.factor) / 2 * gaps[k - 1]
        stays &= gaps[k] > _SMALLEST_KINK * np.maximum(*map(np.abs, slopes[k]))
        grows = gaps[k] > (1 + steps.factor) / 2 * gaps[k - 1]
        kink, firm = np.where(shown, stays, kink), np.where(shown, stays & ~grows, firm)
        hidden = np.where(shown, 0.0, hidden)
        low = np.where(shown, np.real(slopes[k][0]), low)
        high = np.where(shown, np.real(slopes[k][1]), high)
    first, last = (np.abs(p - m) for p, m in (pairs[0], pairs[-1]))
    jump = (last > 0.01 * np.abs(y)) & (last > 0.5 * first)
    low, high = (
        np.where(jump, -np.inf, np.minimum(low, high)),
        np.where(jump, np.inf, np.maximum(low, high)),
    )
    return kink | jump, firm | jump, low, high, hidden


def by_complex_step(
    f: Function,
    args: Sequence[Any],
    direction: Sequence[np.ndarray],
    found: Sequence[Estimate],
    steps: Steps,
) -> list[Estimate] | None:
    """Return derivatives by a step in the imaginary direction, which have no cancellation.

    None where they do not fit the differences. For an analytic function that is real on real
    numbers, Im f(x + i h t) / h is the derivative along t up to the square of h (Squire and Trapp,
    SIAM Review 40, 1998). For a function that is not analytic it is something else, which the
    differences show.

    Args:
      f: the function on complex numbers.
      args, direction: real arrays.
      found: the estimates by differences, with these steps.
    """
    h = 1e-30
    share = (
        0.01 if steps.epsilon < 2.0**-40 else 1.0
    )  # the derivative itself has the rounding of its own types
    moved = [wide(x) + 1j * h * t for x, t in zip(args, direction, strict=True)]
    better: list[Estimate] = []
    with np.errstate(all="ignore"):
        for y, e in zip(f(moved), found, strict=True):
            value = np.imag(np.asarray(y)) / h
            near = np.abs(value - e.value) <= 3 * e.error + 1e-3 * np.abs(e.value)
            if not (np.isfinite(value) & near & ~e.kink).all():
                return None
            better.append(e._replace(value=value, error=1e-12 * np.abs(value) + share * e.error))
    return better


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """Return the real part of the sum of the products of elements, and the sum of the products' absolute values.

    An infinite derivative times a zero element of y counts as zero.
    """
    total = size = 0.0
    with np.errstate(all="ignore"):
        for x, y in zip(xs, ys, strict=True):
            y = wide(y)
            product = np.where(y == 0, 0.0, wide(x) * y)
            total += float(np.sum(np.real(product)))
            size += float(np.sum(np.abs(product)))
    return total, size
