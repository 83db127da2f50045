"""Measure how far results of a program move when its arguments move by a rounding error.

No comparison can be finer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxprtool.backends.differences import Found, difference
from jaxprtool.backends.limits import finfo
from jaxprtool.backends.numpy_eval import KeyArray, float0
from jaxprtool.backends.samples import neighbour
from jaxprtool.ir.diagnostics import JaxprToolError

__all__ = ["all_finite", "normal", "plain", "stable_differences"]

Function = Callable[[Sequence[Any]], Sequence[Any]]

_NEIGHBOURS = 4
_FACTOR = 16.0  # how many times the effect of rounding the arguments a difference may be


def stable_differences(
    ours: tuple[Sequence[Any], Function],
    theirs: tuple[Sequence[Any], Function],
    args: Sequence[Any],
    shadows: Sequence[Function] = (),
    *,
    poles: bool = False,
) -> list[tuple[int, Found]]:
    """Return the results that differ by more than rounding in this program explains, with their differences.

    Args:
      ours, theirs: the results of each implementation, and the function that computes them.
      args: the arguments.
      shadows: further ways to compute ours with other rounding errors: in double precision, for
        instance.
      poles: whether an infinity counts as a NaN.
    """
    pairs = enumerate(
        zip(*(map(partial(plain, poles=poles), x) for x, _ in (ours, theirs)), strict=True)
    )
    differing = [(i, difference(x, y, rounding=True)) for i, (x, y) in pairs]
    differing = [(i, f) for i, f in differing if f.n_different and not _is_tiny(ours[0][i], f)]
    if not differing:
        return []
    tries = [(ours[0], f, args) for f in shadows]
    for side in (ours, theirs):
        tries += [(*side, neighbour(args, k)) for k in range(_NEIGHBOURS)]
    for results, function, given in tries:
        if not differing:
            break
        try:
            moved = function(given)
        except (
            ArithmeticError,
            ValueError,
            JaxprToolError,
        ):  # a matrix that happens to be singular
            continue
        differing = [
            (i, found) for i, found in differing if not _explains(results[i], moved[i], found)
        ]
    return differing


def all_finite(x: Any) -> bool:
    """Whether a value has no NaN and no infinity."""
    x = x.data if isinstance(x, KeyArray) else np.asarray(x)
    if x.dtype.kind not in "fcV" or x.dtype == float0:
        return True
    return bool(np.isfinite(x.astype(complex if x.dtype.kind == "c" else float)).all())


def plain(x: Any, *, poles: bool = False) -> Any:
    """Return a value without differences that implementations are free to make.

    Numbers below the smallest normal one become zero, since XLA and some processors flush them. A
    complex number that is not finite becomes NaN in both parts: which of them is infinite depends
    on how a product or quotient is computed. With `poles` an infinite real number becomes NaN too.
    """
    x = normal(x)
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        return np.where(np.isfinite(x), x, np.array(complex(np.nan, np.nan), x.dtype))
    if poles and isinstance(x, np.ndarray) and not all_finite(x):
        return np.where(np.isinf(x), np.array(np.nan, x.dtype), x)
    return x


def normal(x: Any) -> Any:
    """Return an array with zeros in the place of numbers below the smallest normal one.

    Formats of a byte or less stay as they are: nothing flushes their numbers, since all compute in
    a wider one.
    """
    try:
        tiny = finfo(x.dtype).tiny
    except (ValueError, TypeError, AttributeError):  # integers, booleans, keys
        return x
    if x.dtype.itemsize == 1:
        return x
    x = np.asarray(x)
    if x.dtype.kind == "c":
        found = x.copy()
        found.real, found.imag = normal(x.real), normal(x.imag)
        return found
    with np.errstate(all="ignore"):
        return np.where(np.abs(x) < tiny, np.zeros((), x.dtype), x)


def _is_tiny(ours: Any, found: Found) -> bool:
    """Whether complex numbers differ by less than the rounding error of 1.

    XLA computes complex functions such as sinh from exponentials, which are close to 1 near 0: sinh(1e-20) is 0.
    """
    if not isinstance(ours, np.ndarray) or ours.dtype.kind != "c" or found.max_abs is None:
        return False
    return bool(found.type_a == found.type_b and found.max_abs <= finfo(ours.dtype).eps)


def _explains(ours: Any, moved: Any, found: Found) -> bool:
    """Whether a result moves about as much as it differs from the other implementation's."""
    apart = difference(ours, moved)
    if found.type_a != found.type_b:
        return False
    if found.exact:
        return apart.n_different > 0
    return (
        bool(apart.n_nan) if found.n_nan else (apart.max_abs or 0) * _FACTOR >= (found.max_abs or 0)
    )
