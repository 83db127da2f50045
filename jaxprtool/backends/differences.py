"""Describe how two arrays differ: in how many elements, by how much, and where.

A NaN equals a NaN, and 0.0 equals -0.0 (which is counted separately). The distance of two floats in
ulps is the number of steps from one float to the next between them, in the type of both. Where the
types differ, it is measured in the coarser one, to which the other array is rounded first. The
distance of two complex numbers is the larger one of their parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.arrays import type_name
from jaxprtool.backends.limits import finfo
from jaxprtool.backends.numpy_eval import KeyArray, float0, np_dtype
from jaxprtool.backends.tolerances import Tolerance, epsilon, without_infinities
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.dtypes import DType, dtype_of

__all__ = [
    "NOTHING",
    "Found",
    "as_bits",
    "clearly",
    "clearly_near",
    "clearly_within",
    "difference",
    "quiet",
    "same",
    "snapshot",
    "ulp_distance",
]

_CHUNK = 1 << 20  # elements that are compared at one time
_EXACT_BYTES = 1 << 14  # bytes up to which arrays are compared fastest as byte strings


class Found(NamedTuple):
    """The difference of two arrays.

    Attributes:
      type_a, type_b: their types, as jaxprs spell them.
      size: the number of elements of each.
      n_different: the number of elements that differ by more than the tolerance; all of them where
        shapes or kinds differ.
      max_abs, max_rel, max_ulp: the largest differences, whether tolerated or not; `inf` where only
        one side is NaN. None where there is no such number: for booleans and keys, in ulps of
        integers, between different shapes.
      where: the index of the element that differs most; None where none differs at all.
      a, b: the elements there.
      n_zero_signs: the number of elements that are 0.0 in one and -0.0 in the other.
      n_nan: the number of elements that are NaN in only one.
      exact: whether they are integers, booleans or keys, which are compared without a tolerance.
    """

    type_a: str
    type_b: str
    size: int
    n_different: int = 0
    max_abs: float | int | None = None
    max_rel: float | None = None
    max_ulp: float | int | None = None
    where: tuple[int, ...] | None = None
    a: Any = None
    b: Any = None
    n_zero_signs: int = 0
    n_nan: int = 0
    exact: bool = False


class _Nothing:
    """The value of a result that one of two programs does not have."""


NOTHING = _Nothing()


def snapshot(x: Any) -> Any:
    """Return a value that will not change: the contents of a cell, which may change, are copied."""
    return np.array(x.value) if isinstance(x, Cell) else x


def _array(x: Any) -> Any:
    """Return an array for a value: the words of keys, the contents of a cell, an empty one for a token."""
    if type(x) is np.ndarray:
        return x
    if isinstance(x, KeyArray):
        return x.data
    if isinstance(x, Cell):
        return _array(x.value)
    return np.zeros((), np.bool_) if isinstance(x, Token) else np.asarray(x)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal bit by bit.

    This is the fast way to find that nothing differs.
    """
    if a is b:
        return True
    if type(a) is np.ndarray and type(b) is np.ndarray:
        x, y = a, b
    elif isinstance(a, np.generic) and type(a) is type(b):
        return a.tobytes() == b.tobytes()
    else:
        x, y = _array(a), _array(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.nbytes <= _EXACT_BYTES:
        return x.tobytes() == y.tobytes()
    return bool(np.array_equal(as_bits(x), as_bits(y)))


def clearly_near(a: Any, b: Any) -> bool:
    """Whether floats are so near that rounding certainly explains the difference.

    False may mean either.

    Quicker than `difference` where most are near. The bound is half of the tolerance
    (`Tolerance.rounding`) of the largest element that differs by more than its last place; so the
    answer also holds after rounding to the coarser of two types. Overflows cause warnings, unless
    the caller keeps NumPy quiet.
    """
    x, y = _array(a), _array(b)
    if x.dtype.kind != "f" or y.dtype.kind != "f" or x.shape != y.shape or not x.size:
        return False
    share, most = _near_by(x.dtype if x.dtype.itemsize <= y.dtype.itemsize else y.dtype)
    u, v = x.astype(np.float64), y.astype(np.float64)
    apart, sizes = np.abs(u - v), np.abs(v)
    largest = float(sizes.max())
    # comparisons with NaN are false; what is finite here stays so in the coarser type
    if not (apart.max() <= share * largest and largest < most):
        return False
    coarser = min(x.dtype, y.dtype, key=lambda dtype: dtype.itemsize)
    differing = apart > finfo(coarser).eps * sizes
    if differing.all() or not differing.any():
        return True
    return bool(apart.max() <= share * sizes[differing].max())


def clearly_within(a: Any, b: Any, rtol: float, atol: float) -> bool:
    """Whether floats certainly agree within a tolerance, element by element.

    False may mean either; quicker than `difference`.

    As with `clearly_near`, the answer also holds after rounding to the coarser of two types, and
    overflows are left to the caller.
    """
    x, y = _array(a), _array(b)
    if x.dtype.kind != "f" or y.dtype.kind != "f" or x.shape != y.shape or not x.size:
        return False
    if x.dtype.itemsize > y.dtype.itemsize:
        x, y = y, x
    most = _near_by(x.dtype)[1]
    u, v = x.astype(np.float64), y.astype(np.float64)
    size, apart = np.abs(u), np.abs(u - v)
    if x.dtype != y.dtype:
        info = finfo(x.dtype)
        apart += float(info.eps) * np.abs(v) + float(info.smallest_subnormal)
    return bool((apart <= atol + rtol * size).all()) and bool(size.max() < most)


def clearly(tolerance: Tolerance) -> Callable[[Any, Any], bool] | None:
    """Return a quick function that says whether two values certainly agree within a tolerance; None
    where there is none.
    """
    if tolerance == Tolerance(rounding=True):
        return clearly_near
    rtol, atol, ulp, rounding = tolerance
    if ulp is not None or rounding or (rtol is None and atol is None):
        return None
    return functools.partial(clearly_within, rtol=rtol or 0.0, atol=atol or 0.0)


@functools.cache
def _near_by(dtype: Any) -> tuple[float, float]:
    """Return the largest difference of floats of a type that are clearly near, relative to the
    largest, and a bound on these.
    """
    info = finfo(dtype)
    return 0.5 * float(info.eps) ** (2 / 3), 0.5 * float(info.max)


def quiet() -> Any:
    """Switch NumPy's warnings off inside the block."""
    return np.errstate(all="ignore")


def as_bits(x: np.ndarray) -> np.ndarray:
    """Return the elements of a number array as unsigned integers of their width; complex numbers as two."""
    x = np.ascontiguousarray(x)
    if x.dtype.kind == "c":
        x = x.view(np.dtype(f"f{x.dtype.itemsize // 2}"))
    return x.view(np.dtype(f"u{x.dtype.itemsize}")) if x.dtype.itemsize else x.view(np.uint8)


def difference(
    a: Any,
    b: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: float | None = None,
    rounding: bool = False,
    extra: Any = 0.0,
) -> Found:
    """Return how two values differ.

    Args:
      a, b: arrays, keys, cells or tokens. Float arrays of different types are compared in the
        coarser type.
      rtol, atol: floats differ where their difference exceeds `atol + rtol * max(|a|, |b|)`.
      ulp: floats differ where their distance exceeds this. With none of the three they differ where
        they are not equal.
      rounding: floats differ where their difference exceeds what rounding explains
        (`backends.tolerances`). Integers, booleans and keys are always compared exactly.
      extra: an additional difference that is allowed for floats, elementwise.
    """
    if a is NOTHING or b is NOTHING:
        return _alone(a, b)
    x, y = _array(a), _array(b)
    keyed = isinstance(a, KeyArray) or isinstance(b, KeyArray)
    names = (
        type_name(a if isinstance(a, KeyArray) else x),
        type_name(b if isinstance(b, KeyArray) else y),
    )
    if keyed and x.shape == y.shape and names[0] == names[1]:
        return _keys(x, y, Found(*names, x[..., 0].size, exact=True))
    size = max(x.size, y.size)
    if x.shape != y.shape or keyed:
        return Found(*names, size, max(size, 1))
    kinds = {_kind(x), _kind(y)}
    if float0 in (x.dtype, y.dtype) or kinds == {"?"}:
        return Found(*names, size, 0 if x.dtype == y.dtype else size)
    if len(kinds) > 1:
        return Found(*names, size, size)
    found = Found(*names, size, exact=not kinds & {"f", "c"})
    if same(a, b):
        return _nothing(found, kinds)
    if kinds & {"f", "c"}:
        return _floats(x, y, found, Tolerance(rtol, atol, ulp, rounding), extra)
    return _exact(x, y, found, numbers=kinds == {"i"})


def _alone(a: Any, b: Any) -> Found:
    """Return the difference between a value and a missing one."""
    x = _array(b if a is NOTHING else a)
    kind = type_name(x)
    return Found(
        "-" if a is NOTHING else kind, "-" if b is NOTHING else kind, x.size, max(x.size, 1)
    )


def _kind(x: np.ndarray) -> str:
    """Return `f`, `c`, `b`, `i` for signed and unsigned integers, or `?` for other types."""
    found = dtype_of(x.dtype)
    kind = "?" if found is None else found.kind
    return "i" if kind in "iu" else kind


def _nothing(found: Found, kinds: set[str]) -> Found:
    """Return `found` as no difference, for elements of these kinds."""
    if kinds & {"f", "c"}:
        return found._replace(max_abs=0.0, max_rel=0.0, max_ulp=0)
    return found._replace(max_abs=0, max_rel=0.0) if kinds == {"i"} else found


def _chunks(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    x, y = x.reshape(-1), y.reshape(-1)
    for start in range(0, x.size, _CHUNK):
        yield start, x[start : start + _CHUNK], y[start : start + _CHUNK]


def _exact(x: np.ndarray, y: np.ndarray, found: Found, *, numbers: bool) -> Found:
    """Return the difference of integers (`numbers`), or else of booleans."""
    n, worst, at = 0, -1, 0
    relative = 0.0
    for start, p, q in _chunks(x, y):
        differ = p != q
        if not differ.any():
            continue
        n += int(differ.sum())
        pairs = [*zip(p[differ].tolist(), q[differ].tolist(), strict=True)] if numbers else []
        apart = [abs(int(s) - int(t)) for s, t in pairs]
        largest = max(apart, default=0)
        if numbers:
            relative = max(
                relative,
                *(
                    d / max(abs(int(s)), abs(int(t)))
                    for d, (s, t) in zip(apart, pairs, strict=True)
                ),
            )
        if largest > worst:
            worst = largest
            at = start + int(np.flatnonzero(differ)[apart.index(largest) if numbers else 0])
    if not n:  # integers of two widths
        return _nothing(found, {"i"} if numbers else set())
    where, a, b = _element(x, y, at)
    if not numbers:
        return found._replace(n_different=n, where=where, a=a, b=b)
    return found._replace(n_different=n, max_abs=worst, max_rel=relative, where=where, a=a, b=b)


def _keys(x: np.ndarray, y: np.ndarray, found: Found) -> Found:
    """The difference of two arrays of keys, which are given by their words along the last axis."""
    differ = (x != y).any(axis=-1)
    if not differ.any():
        return found
    where = tuple(int(i[0]) for i in np.nonzero(differ)) if differ.ndim else ()
    a, b = x[where].tolist(), y[where].tolist()
    return found._replace(n_different=int(differ.sum()), where=where, a=a, b=b)


def _element(x: np.ndarray, y: np.ndarray, at: int) -> tuple[tuple[int, ...], Any, Any]:
    where = tuple(int(i) for i in np.unravel_index(at, x.shape)) if x.ndim else ()
    return where, x.reshape(-1)[at].item(), y.reshape(-1)[at].item()


def _floats(x: np.ndarray, y: np.ndarray, found: Found, tolerance: Tolerance, extra: Any) -> Found:
    a, b = dtype_of(x.dtype), dtype_of(y.dtype)
    assert a is not None and b is not None
    dtype = a if a is b or epsilon(a.real) >= epsilon(b.real) else b
    fine, extra = (x, y), np.broadcast_to(extra, x.shape).reshape(-1)
    with np.errstate(all="ignore"):
        x, y = x.astype(np_dtype(dtype)), y.astype(np_dtype(dtype))
        scale = _largest(x, y) if tolerance.rounding else 0.0
        worst: tuple[float, float, int] | None = None
        # numbers of different elements, zeros, NaNs; largest abs, rel, ulp
        total = [0, 0, 0, 0.0, 0.0, 0.0]
        for start, p, q in _chunks(x, y):
            ulps, nans, zeros = _distances(p, q, dtype)
            wide = np.complex128 if dtype.kind == "c" else np.float64
            u, v = p.astype(wide), q.astype(wide)
            apart, size = np.abs(u - v), np.maximum(np.abs(u), np.abs(v))
            equal = ulps == 0
            apart = np.where(equal, 0.0, np.where(np.isnan(apart), np.inf, apart))
            relative = np.where(equal, 0.0, apart / np.where(size > 0, size, 1.0))
            relative = np.where(np.isnan(relative), np.inf, relative)
            u, v = without_infinities(u, dtype), without_infinities(v, dtype)
            near, size = np.abs(u - v), np.maximum(np.abs(u), np.abs(v))
            near = np.maximum(near - extra[start : start + _CHUNK], 0.0)
            differ = tolerance.exceeded(near, size, ulps, scale, dtype) & ~equal | nans
            total[0] += int(differ.sum())
            total[1] += int(zeros.sum())
            total[2] += int(nans.sum())
            for k, values in ((3, apart), (4, relative), (5, ulps)):
                total[k] = max(total[k], values.max())
            if equal.all():
                continue
            i = int(np.argmax(np.where(differ, ulps, -1.0) if differ.any() else ulps))
            key = bool(differ[i]), float(ulps[i]), start + i
            worst = key if worst is None or key[:2] > worst[:2] else worst
    ulp = float(total[5])
    found = found._replace(
        n_different=total[0],
        n_zero_signs=total[1],
        n_nan=total[2],
        max_abs=float(total[3]),
        max_rel=float(total[4]),
        max_ulp=int(total[5]) if np.isfinite(ulp) else ulp,
    )
    if worst is None:
        return found
    where, p, q = _element(*fine, worst[2])
    return found._replace(where=where, a=p, b=q)


def _largest(x: np.ndarray, y: np.ndarray) -> float:
    """Return the largest finite magnitude of elements in which two arrays differ.

    The value of masked elements (-1e30, say) is the same in both, and so does not enlarge the
    tolerance of the others.
    """
    other = x != y
    wide = [np.abs(z.astype(np.complex128 if z.dtype.kind == "c" else np.float64)) for z in (x, y)]
    sizes = (float(np.max(z, initial=0.0, where=np.isfinite(z) & other)) for z in wide)
    return max(sizes, default=0.0)


def _distances(p: np.ndarray, q: np.ndarray, dtype: DType) -> tuple[Any, Any, Any]:
    """Return for each pair of elements of one type: the distance in ulps, whether only one is NaN,
    whether they are 0 and -0.
    """
    if dtype.kind != "c":
        return _real_distances(p, q, dtype)
    parts = (np.real(p), np.real(q)), (np.imag(p), np.imag(q))
    (ulps, nans, zeros), (other, other_nans, other_zeros) = (
        _real_distances(s, t, dtype.real) for s, t in parts
    )
    return np.maximum(ulps, other), nans | other_nans, zeros | other_zeros


def _real_distances(p: np.ndarray, q: np.ndarray, dtype: DType) -> tuple[Any, Any, Any]:
    nan_p, nan_q = p != p, q != q
    s, t = as_bits(p), as_bits(q)
    ulps = ulp_distance(s, t, dtype).astype(np.float64)
    one, both = nan_p ^ nan_q, nan_p & nan_q
    ulps = np.where(one, np.inf, np.where(both, 0.0, ulps))
    zeros = (ulps == 0) & (s != t) & ~both
    return ulps, one, zeros


def ulp_distance(s: np.ndarray, t: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the number of steps between floats of a type that are given by their bits; for NaNs it has no meaning.

    Args:
      s, t: unsigned integers of the width of the type, or wider ones whose low bits they are.
      dtype: a type of floats. Most are a sign and a magnitude; without a sign the bits are the
        magnitude.

    Returns uint64[...].
    """
    s, t = s.astype(np.uint64), t.astype(np.uint64)
    if dtype.has_signed_zero or dtype.has_nan_for_negative_zero:
        sign = np.uint64(1 << (dtype.bits - 1))
        below, magnitude = sign - np.uint64(1), (s & sign) == (t & sign)
        s, t = s & below, t & below
        return np.where(magnitude, np.maximum(s, t) - np.minimum(s, t), s + t)
    return np.maximum(s, t) - np.minimum(s, t)
