"""How far results of a program move when its arguments do by a rounding error: what no comparison can be finer than."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from jaxprtool.backends.differences import Found, difference
from jaxprtool.backends.numpy_eval import KeyArray, float0
from jaxprtool.backends.samples import neighbour
from jaxprtool.ir.diagnostics import JaxprToolError

__all__ = ["all_finite", "normal", "plain", "stable_differences"]

Function = Callable[[Sequence[Any]], Sequence[Any]]

_NEIGHBOURS = 4
_FACTOR = 16.0  # a difference may be so many times what rounding the arguments does


def stable_differences(
    ours: tuple[Sequence[Any], Function],
    theirs: tuple[Sequence[Any], Function],
    args: Sequence[Any],
    shadows: Sequence[Function] = (),
    *,
    poles: bool = False,
) -> list[tuple[int, Found]]:
    """The results that differ by more than rounding does in this program, with how they differ.

    Args:
      ours, theirs: of two implementations the results, and the function that gives them.
      args: the arguments.
      shadows: more ways to compute ours, whose rounding errors are others: in double precision, for instance.
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
    """A value without what implementations are free to choose.

    Numbers below the smallest normal one are zero, since XLA and some processors flush them. A complex number that is not
    finite has NaN for both parts: which of them is infinite depends on how a product or quotient is computed. With `poles` a
    real number has NaN too.
    """
    x = normal(x)
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        return np.where(np.isfinite(x), x, np.array(complex(np.nan, np.nan), x.dtype))
    if poles and isinstance(x, np.ndarray) and not all_finite(x):
        return np.where(np.isinf(x), np.array(np.nan, x.dtype), x)
    return x


def normal(x: Any) -> Any:
    """An array with zeros in the place of numbers below the smallest normal one.

    Those of formats of a byte or less stay: nothing flushes them, since all compute in a wider one.
    """
    try:
        tiny = ml_dtypes.finfo(x.dtype).tiny
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
    return bool(found.type_a == found.type_b and found.max_abs <= ml_dtypes.finfo(ours.dtype).eps)


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
