"""Sample values for arguments of programs: ordinary numbers, and values at which programs tend to differ."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.backends.agreement import is_integer
from jaxprtool.backends.arrays import generate
from jaxprtool.backends.keys import is_key
from jaxprtool.backends.limits import finfo, iinfo
from jaxprtool.backends.numpy_eval import np_dtype

__all__ = ["ORDINARY", "Domain", "contains", "draw", "member", "neighbour", "simpler"]


class Domain(NamedTuple):
    """The values that an argument may have: an interval, or a set of numbers.

    Attributes:
      low, high: the ends of the interval.
      open_low, open_high: whether the ends are excluded.
      members: the numbers, where it is not an interval; else ().
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    members: tuple[float, ...] = ()


_KINDS = ("normal", "small", "ties", "wide", "ramp", "halves", "written", "powers", "equal")
# Samples of these numbers hold ordinary values, the following ones special values too.
ORDINARY = len(_KINDS)
# kinds of samples between those with one special value everywhere
_SPECIAL = ("mixed", "extreme", "signs")


def contains(domain: Domain | None, x: np.ndarray) -> bool:
    """Whether all elements are in a domain."""
    return domain is None or x.dtype.kind not in "fciubV" or bool(_within(domain, x).all())


def _within(domain: Domain, x: np.ndarray) -> np.ndarray:
    """Return which elements are in a domain; its numbers are rounded to the type, as those of arguments are."""
    d = _rounded(domain, x.dtype)
    x = np.asarray(x).astype(np.float64)
    if d.members:
        return np.isin(x, d.members)
    low = x > d.low if d.open_low else x >= d.low
    high = x < d.high if d.open_high else x <= d.high
    return low & high


def _rounded(domain: Domain, dtype: np.dtype) -> Domain:
    """Return a domain with its finite numbers rounded to a type; for integers they stay as they are."""
    if dtype.kind in "biu" or is_integer(dtype):
        return domain
    most = float(finfo(dtype).max)

    def one(x: float) -> float:
        if not math.isfinite(x):
            return x
        return float(np.asarray(min(max(x, -most), most)).astype(dtype))

    low, high, open_low, open_high, members = domain
    return Domain(one(low), one(high), open_low, open_high, tuple(map(one, members)))


def _ends(domain: Domain, dtype: np.dtype) -> tuple[float, float]:
    """Return the least and the largest sample of an interval.

    An infinite side is cut off at 1000 or -1000, or 1000 from the other end, whichever is further.
    """
    whole = is_integer(dtype)
    info = iinfo(dtype) if whole else finfo(dtype)
    least, most = (int(info.min), int(info.max)) if whole else (float(info.min), float(info.max))
    low = domain.low if math.isfinite(domain.low) else min(-1e3, domain.high - 1e3)
    high = domain.high if math.isfinite(domain.high) else max(1e3, domain.low + 1e3)
    if whole:
        low = math.floor(low) + 1 if domain.open_low and low == domain.low else math.ceil(low)
        high = math.ceil(high) - 1 if domain.open_high and high == domain.high else math.floor(high)
    return max(low, least), min(high, most)


def member(domain: Domain, aval: Any) -> Any:
    """Return a number of a type that is in a domain, or None where there is none."""
    dtype = np_dtype(aval.dtype)
    d = _rounded(domain, dtype)
    low, high = _ends(d, dtype)
    with np.errstate(all="ignore"):
        tried = [np.asarray(x).astype(dtype) for x in d.members if _holds(dtype, x)]
        if not tried and low <= high:
            ends = [np.asarray(x).astype(dtype) for x in ((low + high) / 2, low, high)]
            if not is_integer(dtype):
                ends += [np.nextafter(ends[1], ends[2]), np.nextafter(ends[2], ends[1])]
            tried = ends
        found = [x for x in tried if _within(domain, x)]
    return found[0] if found else None


def _holds(dtype: np.dtype, x: float) -> bool:
    """Whether a type can represent a number: integers exactly, floats after rounding."""
    if not is_integer(dtype):
        return True
    return x == int(x) and iinfo(dtype).min <= x <= iinfo(dtype).max


def draw(
    aval: Any,
    domain: Domain | None,
    seed: int,
    position: int,
    kind: int,
    written: Sequence[float] = (),
) -> Any:
    """Return a sample of a type.

    Args:
      aval: the type.
      domain: the values that it may have; None: any, including those that are not finite.
      seed: the seed of the random numbers.
      position: the position of the argument.
      kind: the kind of its values; below ORDINARY they are ordinary ones.
      written: numbers that occur in the programs, where comparisons with them change their result.

    Returns:
      An array, or keys.
    """
    name, special = _kind(kind)
    rng = np.random.default_rng([11, seed] if name == "equal" else [11, seed, position])
    if is_key(aval) or (np_dtype(aval.dtype).kind == "V" and aval.dtype.kind == "0"):
        return generate("random", seed, position, aval)
    dtype = np_dtype(aval.dtype)
    if aval.dtype.kind == "b":
        return rng.integers(0, 2, aval.shape).astype(dtype)
    if domain is not None:
        return _inside(domain, aval, seed, position, kind, written)
    if aval.dtype.kind == "c":
        real = aval.update(dtype=aval.dtype.real)
        found = np.zeros(aval.shape, dtype)
        found.real = draw(real, None, seed, 2 * position, kind, written)
        found.imag = draw(real, None, seed, 2 * position + 1, kind, written)
        return found
    specials = _specials(dtype, aval.dtype.kind)
    if name == "one":
        return np.full(aval.shape, specials[special % len(specials)], dtype)
    if name == "written":
        with np.errstate(all="ignore"):
            near = np.array(_beside(written, dtype, aval.dtype.kind)).astype(dtype)
        if near.size:
            return near[rng.integers(0, len(near), aval.shape)]
    if written and (name == "ramp" or (name == "ties" and math.prod(aval.shape) == 1)):
        found = _in_turn(written, dtype, aval, seed // ORDINARY, position, combined=name == "ties")
        if found is not None:
            return found
    whole = aval.dtype.kind in "iu"
    with np.errstate(all="ignore"):
        found = (_integers if whole else _reals)(rng, aval.shape, name, seed, dtype)
        return _with_special(rng, found, name, specials)


def _kind(kind: int) -> tuple[str, int]:
    """Return the name of the kind of a sample's values, and for `one` the number of the special
    value that all of them are.
    """
    if kind < ORDINARY:
        return _KINDS[kind], 0
    turn, rest = divmod(kind - ORDINARY, 2)
    return (_SPECIAL[turn % len(_SPECIAL)], 0) if rest else ("one", turn)


def _reals(
    rng: np.random.Generator, shape: Sequence[int], name: str, seed: int, dtype: np.dtype
) -> np.ndarray:
    info = finfo(dtype)
    count = math.prod(shape)
    found: Any
    if name == "wide":
        largest = min(6.0, math.log10(float(info.max)) / 2)
        found = 10.0 ** rng.uniform(-largest, largest, shape) * rng.choice([-1, 1], shape)
    elif name == "powers":
        # From where a step is larger than 1 to where it is lost beside 1; and numbers next to them.
        most = min(int(info.nmant) + 2, int(math.log2(float(info.max))))
        found = 2.0 ** rng.integers(-most, most + 1, shape) * rng.choice([-1, 1], shape)
        found = found * (1 + float(info.eps) * rng.choice([-0.5, 0, 0, 1], shape))
    elif name == "small":
        found = rng.integers(-3, 4, shape)
    elif name == "halves":  # odd ones more often than whole numbers
        found = rng.choice([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -1.0, 2.0], shape)
    elif name == "ties":  # the same three numbers in all arguments
        found = rng.choice(np.random.default_rng([12, seed]).standard_normal(3), shape)
    elif name == "ramp":
        found = np.arange(count).reshape(shape) - rng.integers(0, count + 1)
    else:
        found = rng.standard_normal(shape)
    return np.asarray(found).astype(dtype)


_TOPS = {"normal": 9, "small": 3, "ties": 1, "halves": 20, "written": 9, "equal": 9}


def _integers(
    rng: np.random.Generator, shape: Sequence[int], name: str, _seed: int, dtype: np.dtype
) -> np.ndarray:
    low, high = int(iinfo(dtype).min), int(iinfo(dtype).max)
    if name == "ramp":
        return np.asarray(np.arange(math.prod(shape)).reshape(shape) % (min(high, 99) + 1), dtype)
    if name in _TOPS:
        least = -_TOPS[name] if name in ("small", "halves", "equal") else 0
        found = rng.integers(max(low, least), min(high, _TOPS[name]) + 1, shape)
        return np.asarray(found).astype(dtype)
    wide = _wide(low)
    if name == "powers":
        near = {
            s * 2**k + d for k in range(high.bit_length() + 1) for s in (1, -1) for d in (-1, 0, 1)
        }
        some = np.array(sorted(x for x in near if low <= x <= high), wide)
        return some[rng.integers(0, len(some), shape)].astype(dtype)
    return rng.integers(low, high, shape, wide, endpoint=True).astype(dtype)


def _wide(low: float) -> Any:
    """Return a 64-bit type that contains the integers of any type whose least number is `low`."""
    return np.int64 if low < 0 else np.uint64


def _specials(dtype: np.dtype, kind: str) -> list[Any]:
    """Return the values of a type at which programs tend to differ."""
    if kind in "iu":
        info = iinfo(dtype)
        low, high = int(info.min), int(info.max)
        more = [-1, 2, 3, -2, low + 1, high - 1, high // 2 + 1, high.bit_length()]
        return [0, 1, high, low, *(x for x in more if low <= x <= high)]
    info = finfo(dtype)
    found = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    found += [info.smallest_subnormal, info.tiny, info.max, info.min, info.eps, 0.5, -0.5, 1.5, 2.5]
    # The number before 0.5, which rounds to 1 with 0.5 added; from where all numbers are whole; the least that is no i32.
    before, whole = 0.5 - float(info.eps) / 4, 2.0 ** int(info.nmant)
    found += [before, -before, whole + 1, -float(info.tiny)]
    return [*found, *(x for x in (2.0**31, -(2.0**31)) if abs(x) <= float(info.max))]


def _beside(written: Sequence[float], dtype: np.dtype, kind: str) -> list[Any]:
    """Return the numbers that occur in programs, repeated, with their neighbours and negatives, as
    far as a type has them.
    """
    some = _held(written, dtype)
    if kind in "iu":
        info = iinfo(dtype)
        low, high = int(info.min), int(info.max)
        return [y for x in some for y in (x, x, x, x - 1, x + 1, -x) if low <= y <= high]
    step = float(finfo(dtype).eps)
    return [y for x in some for y in (x, x, x, x * (1 + step), x * (1 - step), -x)]


def _held(written: Sequence[float], dtype: np.dtype) -> list[Any]:
    """Return the numbers that occur in programs and are in the range of a type."""
    if is_integer(dtype):
        info = iinfo(dtype)
        low, high = int(info.min), int(info.max)
        return [int(x) for x in written if x == int(x) and low <= int(x) <= high]
    most = float(finfo(dtype).max)
    return [float(x) for x in written if abs(x) <= most]


def _in_turn(
    written: Sequence[float],
    dtype: np.dtype,
    aval: Any,
    turn: int,
    position: int,
    *,
    combined: bool,
) -> np.ndarray | None:
    """Return consecutive numbers between those that occur in programs, continuing where the sample before ended.

    With `combined`, for scalars, the numbers themselves, in all combinations with those of other
    arguments. None where other values are more useful.
    """
    count = math.prod(aval.shape)
    if combined:
        some = np.array(_held(written, dtype)).astype(dtype)
        first = turn // max(len(some), 1) ** min(position, 8)
    elif count == 1:  # a ramp of one number says little
        some, first = _between(written, dtype), turn + position
    else:
        some = _between(written, dtype) if turn % 2 else np.zeros(0, dtype)
        first = turn // 2 * count + position
    if not some.size:
        return None
    return some[(first + np.arange(count)) % some.size].reshape(aval.shape)


def _between(written: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Return the midpoints between neighbours among the numbers that occur in programs, for the
    nearest neighbours first.

    Ordinary samples seldom lie between two near numbers.
    """
    with np.errstate(all="ignore"):
        known = np.array(sorted({s * float(x) for x in (0, *written) for s in (1, -1)}))
        low, high = known[:-1], known[1:]
        middle = np.floor((low + high) / 2) if is_integer(dtype) else low / 2 + high / 2
        width = (high - low) / np.maximum(np.abs(low), np.abs(high))
        some = middle[np.argsort(width, kind="stable")]
        if is_integer(dtype):
            info = iinfo(dtype)
            some = some[(some >= int(info.min)) & (some <= int(info.max))]
        return some.astype(dtype)


def _with_special(
    rng: np.random.Generator, found: np.ndarray, name: str, special: list[Any]
) -> np.ndarray:
    """Return ordinary values with some special ones among them, depending on the name of the kind."""
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
    domain: Domain, aval: Any, seed: int, position: int, kind: int, written: Sequence[float]
) -> np.ndarray:
    """Return a sample in a domain: a sample of the type, with elements outside replaced by numbers of the domain.

    The ends of the domain are among the special values.
    """
    dtype, shape = np_dtype(aval.dtype), aval.shape
    name, _ = _kind(kind)
    rng = np.random.default_rng([14, seed] if name == "equal" else [14, seed, position])
    if domain.members:
        some = np.array([x for x in _rounded(domain, dtype).members if _holds(dtype, x)])
        return some[rng.integers(0, len(some), shape)].astype(dtype)
    low, high = _ends(_rounded(domain, dtype), dtype)
    if is_integer(dtype):
        found = np.asarray(rng.integers(int(low), int(high), shape, _wide(low), endpoint=True))
    else:
        share = rng.random(shape)
        found = np.asarray(low * (1 - share) + high * share)
    if name in ("small", "ties"):
        found = np.asarray(rng.choice(found.reshape(-1)[:3], shape) if found.size else found)
    if name not in _KINDS:
        chosen = np.array([low, high])[rng.integers(0, 2, shape)]
        found = np.where(rng.random(shape) < 0.5, chosen, found)
    found = np.asarray(found.astype(dtype))
    found = np.where(_within(domain, found), found, member(domain, aval))
    free = draw(aval, None, seed, position, kind, (*written, low, high))
    inside = _within(domain, free)
    if name in (
        "normal",
        "small",
        "ties",
        "wide",
    ):  # values spread over the whole domain are more telling
        inside = inside & (rng.random(shape) < 0.5)
    return np.where(inside, free, found).astype(dtype)


def neighbour(args: Sequence[Any], seed: int) -> list[Any]:
    """Return arguments whose floating and complex elements differ from these in the last place, or not at all."""
    rng = np.random.default_rng([13, seed])
    found = []
    for x in args:
        try:
            epsilon = float(finfo(x.dtype).eps)
        except (ValueError, TypeError, AttributeError):  # integers, booleans, keys
            found.append(x)
            continue
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        with np.errstate(all="ignore"):
            moved = wide * (1 + epsilon * rng.choice([-1.0, 1.0], x.shape))
            found.append(np.where(np.isfinite(wide), moved, wide).astype(x.dtype))
    return found


def _powers(x: Any) -> list[Any]:
    """Return powers between a simple number and an element: for an integer of 2 (from 2), else of
    10 (from 1), nearest to 1 first.
    """
    if x.dtype.kind in "biu":
        signs = (1, -1) if x.dtype.kind == "i" else (1,)
        return [s * 2**k for k in range(2, abs(int(x)).bit_length()) for s in signs]
    value = math.hypot(float(x.real), float(x.imag))  # `abs` of a large complex number raises
    if not value or not math.isfinite(value):
        return []
    sign = -1 if x.dtype.kind != "c" and x < 0 else 1
    step = 1 if value >= 10 else -1
    most = min(step * math.ceil(abs(math.log10(value))), sys.float_info.max_10_exp)
    return [sign * 10.0**k for k in range(step, most + step, step)][:_MOST_POWERS]


_MOST_POWERS = 128


def simpler(x: Any) -> list[Any]:
    """Return simpler numbers than an element, the simplest first: 0, 1, -1, 2, powers of 2 or 10,
    and it with fewer digits.
    """
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
