"""Arrays of sample values for arguments of programs: ordinary numbers, and those at which programs tend to differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jaxprtool.backends.arrays import generate
from jaxprtool.backends.keys import is_key
from jaxprtool.backends.numpy_eval import np_dtype

__all__ = ["ORDINARY", "Domain", "contains", "draw", "neighbour", "simpler"]


class Domain(NamedTuple):
    """What values an argument may have: an interval, or some numbers.

    Attributes:
      low, high: the ends.
      open_low, open_high: whether the ends are outside.
      members: the numbers, where it is not an interval.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    members: tuple[float, ...] = ()


_KINDS = ("normal", "small", "ties", "wide", "ramp")
ORDINARY = len(
    _KINDS
)  # samples of these numbers hold ordinary values, the following ones special values too
_SPECIAL = ("mixed", "extreme", "signs")  # after those whose elements are all one special value
_FILLS = 12  # there are at most so many special values


def contains(domain: Domain | None, x: np.ndarray) -> bool:
    """Whether all elements are in a domain."""
    if domain is None or x.dtype.kind not in "fciubV":
        return True
    x = np.asarray(x).astype(np.float64)
    if domain.members:
        return bool(np.isin(x, domain.members).all())
    low = x > domain.low if domain.open_low else x >= domain.low
    high = x < domain.high if domain.open_high else x <= domain.high
    return bool((low & high).all())


def draw(aval: Any, domain: Domain | None, seed: int, position: int, kind: int) -> Any:
    """A sample of a type.

    Args:
      aval: the type.
      domain: what values it may have; None: any, those that are not finite included.
      seed: of the random numbers.
      position: which argument it is.
      kind: what values it has; below ORDINARY ordinary ones.

    Returns:
      An array, or keys.
    """
    rng = np.random.default_rng([11, seed, position])
    if is_key(aval) or (np_dtype(aval.dtype).kind == "V" and aval.dtype.kind == "0"):
        return generate("random", seed, position, aval)
    name, special = _kind(kind)
    dtype = np_dtype(aval.dtype)
    if aval.dtype.kind == "b":
        return rng.integers(0, 2, aval.shape).astype(dtype)
    if domain is not None:
        return _inside(domain, rng, aval, dtype, name)
    if aval.dtype.kind == "c":
        real = aval.update(dtype=aval.dtype.real)
        found = np.zeros(aval.shape, dtype)
        found.real = draw(real, None, seed, 2 * position, kind)
        found.imag = draw(real, None, seed, 2 * position + 1, kind)
        return found
    if name == "one":
        values = _specials(dtype, aval.dtype.kind)
        return np.full(aval.shape, values[special % len(values)], dtype)
    return _real(aval, rng, name, dtype)


def _kind(kind: int) -> tuple[str, int]:
    """What the values of a sample are like, and for `one` which of the special values all of them are."""
    if kind < ORDINARY:
        return _KINDS[kind], 0
    kind -= ORDINARY
    return ("one", kind) if kind < _FILLS else (_SPECIAL[kind % len(_SPECIAL)], 0)


def _real(aval: Any, rng: np.random.Generator, name: str, dtype: np.dtype) -> np.ndarray:
    shape, special = aval.shape, _specials(dtype, aval.dtype.kind)
    if aval.dtype.kind in "iu":
        return _integers(rng, shape, name, special, dtype)
    with np.errstate(all="ignore"):
        if name == "wide":
            largest = min(6.0, math.log10(float(ml_dtypes.finfo(dtype).max)) / 2)
            size = 10.0 ** rng.uniform(-largest, largest, shape)
            return np.asarray(size * rng.choice([-1, 1], shape)).astype(dtype)
        found = np.asarray(_ordinary(rng, shape, name)).astype(dtype)
        return _with_special(rng, found, name, special)


def _ordinary(rng: np.random.Generator, shape: Sequence[int], name: str) -> Any:
    count = math.prod(shape)
    if name == "small":
        return rng.integers(-3, 4, shape)
    if name == "ties":
        return rng.choice(rng.standard_normal(3), shape)
    if name == "ramp":
        return np.arange(count).reshape(shape) - rng.integers(0, count + 1)
    return rng.standard_normal(shape)


def _integers(
    rng: np.random.Generator, shape: Sequence[int], name: str, special: list[Any], dtype: np.dtype
) -> np.ndarray:
    low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    if name in ("normal", "small", "ramp", "ties"):
        top = {"normal": 9, "small": 3, "ties": 1, "ramp": 99}[name]
        found = np.arange(math.prod(shape)).reshape(shape) if name == "ramp" else None
        if found is None:
            found = rng.integers(
                max(low, -top if name == "small" else 0), min(high, top) + 1, shape
            )
        return np.asarray(found % (min(high, 99) + 1) if name == "ramp" else found).astype(dtype)
    found = rng.integers(low, high, shape, np.int64 if low < 0 else np.uint64, endpoint=True)
    return _with_special(rng, found.astype(dtype), name, special)


def _specials(dtype: np.dtype, kind: str) -> list[Any]:
    """The values of a type at which programs tend to differ."""
    if kind in "iu":
        info = ml_dtypes.iinfo(dtype)
        return [0, 1, int(info.max), int(info.min), *([-1] if int(info.min) < 0 else [])]
    info = ml_dtypes.finfo(dtype)
    found = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    return [*found, info.smallest_subnormal, info.tiny, info.max, info.min, info.eps]


def _with_special(
    rng: np.random.Generator, found: np.ndarray, name: str, special: list[Any]
) -> np.ndarray:
    """Ordinary values with some special ones among them, as the name of the sample says."""
    dtype, shape = found.dtype, found.shape
    if name == "signs":
        return np.array([0, -0.0 if dtype.kind not in "iu" else 0], dtype)[
            rng.integers(0, 2, shape)
        ]
    if name in ("mixed", "extreme"):
        chosen = np.array(special, dtype)[rng.integers(0, len(special), shape)]
        share = 1.0 if name == "extreme" else 0.5 if found.size < 4 else 0.2
        return np.where(rng.random(shape) < share, chosen, found)
    return found


def _inside(
    domain: Domain, rng: np.random.Generator, aval: Any, dtype: np.dtype, name: str
) -> np.ndarray:
    """A sample in a domain: its special values are the ends, and 0 and 1 where they are in it."""
    if domain.members:
        return np.array(domain.members, dtype)[rng.integers(0, len(domain.members), aval.shape)]
    low = domain.low if math.isfinite(domain.low) else min(-1e3, domain.high - 1e3)
    high = domain.high if math.isfinite(domain.high) else max(1e3, domain.low + 1e3)
    found = np.asarray(rng.uniform(low, high, aval.shape))
    if aval.dtype.kind in "iu":
        found = np.asarray(rng.integers(math.ceil(low), math.floor(high) + 1, aval.shape))
    if name in ("small", "ties"):
        found = np.asarray(rng.choice(found.reshape(-1)[:3], aval.shape) if found.size else found)
    if name not in _KINDS:
        ends = [low, high, *(x for x in (0.0, -0.0, 1.0) if low <= x <= high)]
        chosen = np.array(ends)[rng.integers(0, len(ends), aval.shape)]
        found = np.where(rng.random(aval.shape) < 0.5, chosen, found)
    found = np.asarray(np.clip(found.astype(dtype), dtype.type(low), dtype.type(high)))
    middle = np.asarray((low + high) / 2).astype(dtype)
    outside = np.array([not contains(domain, x) for x in found.reshape(-1)], bool)
    return np.where(outside.reshape(found.shape), middle, found)


def neighbour(args: Sequence[Any], seed: int) -> list[Any]:
    """Arguments whose floating and complex elements differ from these in the last place, or not at all."""
    rng = np.random.default_rng([13, seed])
    found = []
    for x in args:
        try:
            epsilon = float(ml_dtypes.finfo(x.dtype).eps)
        except (ValueError, TypeError, AttributeError):  # integers, booleans, keys
            found.append(x)
            continue
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        with np.errstate(all="ignore"):
            moved = wide * (1 + epsilon * rng.choice([-1.0, 1.0], x.shape))
            found.append(np.where(np.isfinite(wide), moved, wide).astype(x.dtype))
    return found


def _powers(x: Any) -> list[Any]:
    """Of an integer the powers of 2 between 2 and it, of another number those of 10 between 1 and it, the nearest to 1 first."""
    if x.dtype.kind in "biu":
        signs = (1, -1) if x.dtype.kind == "i" else (1,)
        return [s * 2**k for k in range(2, abs(int(x)).bit_length()) for s in signs]
    value = abs(complex(x))
    if not value or not math.isfinite(value):
        return []
    sign = -1 if x.dtype.kind != "c" and x < 0 else 1
    most = int(math.log10(value))
    step = 1 if most > 0 else -1
    return [sign * 10.0**k for k in range(step, most + step, step)][:_MOST_POWERS]


_MOST_POWERS = 128


def simpler(x: Any) -> list[Any]:
    """Simpler numbers than an element, the simplest first: 0, 1, -1, 2, powers of 2 or 10, and it with fewer digits."""
    dtype = x.dtype
    with np.errstate(all="ignore"):
        whole = [0, 1, 2, -1] if dtype.kind not in "u" else [0, 1, 2]
        if dtype.kind == "b":
            whole = [0]
        tried = [np.asarray(v).astype(dtype) for v in [*whole, *_powers(x)]]
        if dtype.kind not in "biu":
            value = complex(x) if dtype.kind == "c" else float(x)
            for digits in (0, 1, 2, 3):
                if isinstance(value, complex):
                    short: Any = (
                        complex(round(value.real, digits), round(value.imag, digits))
                        if np.isfinite(value)
                        else value
                    )
                else:
                    short = round(value, digits) if math.isfinite(value) else value
                tried.append(np.asarray(short).astype(dtype))
    same = [v.tobytes() == x.tobytes() for v in tried]
    return tried[: same.index(True)] if True in same else tried
