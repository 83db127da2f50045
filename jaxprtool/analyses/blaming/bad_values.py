"""Bad values: which values are sought (NaN, infinities, denormal numbers, large ones), and where they are in an array."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import json_number
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import RefType

__all__ = [
    "LARGE",
    "Range",
    "Sought",
    "any_in_rows",
    "counts",
    "most_in_rows",
    "range_of",
    "values_at",
]

_FEW = 5  # indices of bad elements that are reported
LARGE = 512  # elements: to concatenate larger arrays takes longer than to look at each
_NARROW = 64  # columns: arrays with fewer are reduced the other way round
_BLAS = ("f", "d")  # NumPy's characters of the types whose dot product is fast


def _is_not_finite(xp: Any) -> Callable[[Any], bool]:
    """Return a quick function that is False where all numbers of a value are finite, and seldom True in that case."""
    array, all_finite = xp.ndarray, xp.isfinite  # values of an evaluation are of no subclass
    is_finite, is_finite_complex = math.isfinite, cmath.isfinite

    def may_hold(x: Any) -> bool:
        if type(x) is not array:
            return not is_finite_complex(x)
        if x.dtype.char not in _BLAS:
            return not all_finite(x).all()
        # A dot product of finite numbers that are not huge is finite, and is the fastest way to read them all.
        flat = x if x.ndim == 1 else x.ravel("K")
        return not is_finite(flat.dot(flat))

    return may_hold


class Sought:
    """The kinds of values that are bad in one analysis.

    Attributes:
      kinds: the sought kinds, of `nan`, `inf`, `denormal` and `above`, in this order.
      above: with `above`, the absolute value that a bad value exceeds; else None.
      key: identifies what is sought.
      adds_up: whether a sum of numbers is bad wherever one of them is.
      may_hold: a quick function that is False only for a value without a bad element.
    """

    __slots__ = ("_xp", "above", "adds_up", "key", "kinds", "may_hold")

    def __init__(
        self,
        *,
        nan: bool = False,
        inf: bool = False,
        denormal: bool = False,
        above: float | None = None,
    ):
        if not (nan or inf or denormal or above is not None):
            nan = inf = True
        flags = {"nan": nan, "inf": inf, "denormal": denormal, "above": above is not None}
        self.kinds = tuple([kind for kind, wanted in flags.items() if wanted])
        self.above = above
        self.adds_up = self.kinds in (("nan",), ("nan", "inf"))
        self._xp = numpy_namespace()
        self.key = self.kinds, above
        finite = not (denormal or above is not None)
        self.may_hold = _is_not_finite(self._xp) if finite else self._holds

    def __contains__(self, x: Any) -> bool:
        """Whether a value of a floating or complex type holds a bad value; outside of a run too."""
        with self._xp.errstate(all="ignore"):
            if self.kinds != ("nan", "inf") or type(x) is not self._xp.ndarray:
                return self.state(x) > 0
            if x.dtype.char in _BLAS:
                flat = x if x.ndim == 1 else x.ravel("K")
                squares = flat.dot(flat)
                if math.isfinite(squares):
                    return False
                if squares != squares:  # one is a NaN, for squares do not cancel
                    return True
            return not self._xp.isfinite(x).all()

    def _holds(self, x: Any) -> bool:
        return bool(self.where(x).any())

    def state(self, x: Any) -> int:
        """Return the state of a value: 0 if it is good, else twice the number of bad elements, plus 1 if some are NaN."""
        xp = self._xp
        if self.kinds != ("nan", "inf"):
            if not self.may_hold(x):
                return 0
            count = int(xp.count_nonzero(self.where(x)))
            return 2 * count + bool(xp.isnan(x).any()) if count else 0
        if type(x) is not xp.ndarray:
            return 0 if cmath.isfinite(x) else 3 if x != x else 2
        if x.dtype.char in _BLAS:
            flat = x if x.ndim == 1 else x.ravel("K")
            squares = flat.dot(flat)  # NaN where one is NaN, for squares do not cancel
            if math.isfinite(squares):
                return 0
            count = x.size - xp.count_nonzero(xp.isfinite(x))
            return 2 * count + bool(squares != squares) if count else 0
        count = x.size - xp.count_nonzero(xp.isfinite(x))
        return 2 * count + bool(xp.isnan(x).any()) if count else 0

    def where(self, x: Any) -> Any:
        """Return which elements of a value are bad: a boolean array of its shape."""
        found = self._of_kind(self.kinds[0], x)
        for kind in self.kinds[1:]:
            found = found | self._of_kind(kind, x)
        return found

    def codes(self, x: Any) -> Any:
        """Return what is bad in an array, as uint8: 1 for a bad element, 3 for a NaN, 0 for a good one; None where all are good."""
        xp = self._xp
        if self.kinds == ("nan", "inf"):
            finite = xp.isfinite(x)
            if finite.all():
                return None
            which = ~finite
        else:
            which = self.where(x)
            if not which.any():
                return None
        found = which.view(xp.uint8)
        if "nan" in self.kinds:
            found |= xp.isnan(x).view(xp.uint8) << 1
        return found

    def bad_ones(self, x: Any) -> Any:
        """As `where`, for an array; None where no element is bad."""
        xp = self._xp
        if self.kinds == ("nan", "inf"):
            finite = xp.isfinite(x)
            return None if finite.all() else ~finite
        which = self.where(x)
        return which if which.any() else None

    def code(self, x: Any) -> bytes:
        """Return `codes` of a value's elements in their order, as bytes."""
        xp = self._xp
        flat = xp.asarray(x).reshape(-1)
        codes = self.codes(flat)
        return bytes(flat.size) if codes is None else codes.tobytes()

    def states(self, xs: Sequence[Any]) -> Any:
        """Return the states of values of one type, as an array; as an int where one state holds for all."""
        xp = self._xp
        if xs[0] is xs[-1] and all([x is xs[0] for x in xs]):  # noqa: C419 (quicker)
            return self.state(xs[0])
        if xs[0].size >= LARGE:
            found = [*map(self.state, xs)]
            return xp.array(found) if any(found) else 0
        whole = xp.concatenate(xs, axis=None) if xp.ndim(xs[0]) else xp.array(xs)
        codes = self.codes(whole)
        if codes is None or not codes.size:
            return 0
        codes = codes.reshape(len(xs), -1)
        return 2 * counts(codes) + any_in_rows(codes == 3)

    def states_of_all(self, values: Sequence[Sequence[Any]]) -> list[Any]:
        """Return `states` for each of many lists; lists of one type are looked at together."""
        by_type: dict[Any, list[int]] = {}
        for i, xs in enumerate(values):
            x = xs[0]
            by_type.setdefault((x.dtype, not x.shape), []).append(i)
        found: list[Any] = [0] * len(values)
        for (_, scalar), which in by_type.items():
            if len(which) > 1 and values[which[0]][0].size < LARGE:
                together = [x for i in which for x in values[i]]
                xp = self._xp
                whole = xp.array(together) if scalar else xp.concatenate(together, axis=None)
                if self.bad_ones(whole) is None:
                    continue
            for i in which:
                found[i] = self.states(values[i])
        return found

    def kind_of(self, x: Any) -> str:
        """Return the first sought kind of which a value holds an element."""
        return next((k for k in self.kinds if self._of_kind(k, x).any()), self.kinds[0])

    def _of_kind(self, kind: str, x: Any) -> Any:
        xp = self._xp
        array = xp.asarray(x)
        if kind == "nan":
            return xp.isnan(array)
        if kind == "inf":
            return xp.isinf(array)
        if kind == "above":
            return xp.abs(array).astype(xp.float64) > self.above
        return self._denormal(array)

    def _denormal(self, array: Any) -> Any:
        xp = self._xp
        if array.dtype.kind == "c":
            return self._denormal(array.real) | self._denormal(array.imag)
        least = xp.finfo_of(array.dtype).smallest_normal
        return (array != 0) & (xp.abs(array) < array.dtype.type(least))

    def indices(self, which: Any) -> list[tuple[int, ...]]:
        """Return the first few indices where a boolean array is true."""
        xp = self._xp
        if not which.shape:
            return [()] if which else []
        flat = xp.flatnonzero(which)[:_FEW]
        return [*zip(*[i.tolist() for i in xp.unravel_index(flat, which.shape)], strict=True)]


def counts(codes: Any) -> Any:
    """Return how many elements are bad in each row of codes [n, m]."""
    xp = numpy_namespace()
    if codes.shape[1] < LARGE:
        return xp.count_nonzero(codes, axis=1)
    return xp.array([xp.count_nonzero(row) for row in codes])  # quicker


def any_in_rows(x: Any) -> Any:
    """Return for each row of a boolean array, over all other axes, whether an element is true."""
    return _reduced_in_rows(numpy_namespace().logical_or, x)


def most_in_rows(x: Any) -> Any:
    """Return the largest number in each row of an array [n, m], where m > 0."""
    return _reduced_in_rows(numpy_namespace().maximum, x)


def _reduced_in_rows(f: Any, x: Any) -> Any:
    flat = x.reshape(len(x), -1) if x.size else x.reshape(len(x), 0)
    if flat.shape[1] >= _NARROW:
        return f.reduce(flat, axis=1)
    # NumPy reduces a few long columns in a fraction of the time that many short rows take.
    return f.reduce(numpy_namespace().ascontiguousarray(flat.T), axis=0)


class Range(NamedTuple):
    """The range of the values of an operand.

    Attributes:
      type: the operand's type, as text.
      least: the least finite value, of complex numbers the least absolute value; None where there
        is none.
      most: the greatest one, likewise.
      nan: how many elements are NaN.
      inf: how many are infinite.
      values: its values at the offending indices, where it has values there.
    """

    type: str
    least: Any
    most: Any
    nan: int = 0
    inf: int = 0
    values: Sequence[Any] = ()

    def __str__(self) -> str:
        if self.least is None:
            text = "no finite value"
        elif self.least == self.most:
            text = _number(self.least)
        else:
            text = f"{_number(self.least)} to {_number(self.most)}"
        counts = [f"{n:,} {kind}" for n, kind in ((self.nan, "nan"), (self.inf, "inf")) if n]
        return ", ".join([text, *counts])

    def json(self) -> dict[str, Any]:
        """The range with the keys type, min, max, nan, inf and values."""
        return {
            "type": self.type,
            "min": json_number(self.least),
            "max": json_number(self.most),
            "nan": self.nan,
            "inf": self.inf,
            "values": [json_number(x) for x in self.values],
        }


def _number(x: Any) -> str:
    return str(x) if isinstance(x, (int, complex)) else f"{x:.6g}"


def range_of(
    value: Any, aval: Any, indices: Sequence[tuple[int, ...]] = (), shape: Any = ()
) -> Range | None:
    """Return the range of an operand; None for keys, tokens and other values that are no numbers.

    Args:
      value: the operand.
      aval: its type.
      indices: the offending indices of the result, where the operation is elementwise.
      shape: the shape of the result.
    """
    xp = numpy_namespace()
    if isinstance(aval, RefType):
        value = value.value
    if not isinstance(value, (xp.ndarray, xp.generic)) or not value.dtype.itemsize:
        return None
    array = xp.asarray(value)
    dtype = getattr(getattr(aval, "dtype", None), "kind", "?")
    if dtype not in "fc":
        least, most = (array.min().item(), array.max().item()) if array.size else (None, None)
        return Range(str(aval), least, most, values=_at(array, indices, shape))
    finite = xp.isfinite(array)
    n_finite = int(xp.count_nonzero(finite))
    numbers, nan, inf = array, 0, 0
    if n_finite < array.size:
        numbers = array[finite]
        nan = int(xp.count_nonzero(xp.isnan(array)))
        inf = int(xp.count_nonzero(xp.isinf(array)))  # a complex number may be both
    if dtype == "c":
        numbers = xp.abs(numbers)
    least, most = (float(numbers.min()), float(numbers.max())) if n_finite else (None, None)
    return Range(str(aval), least, most, nan, inf, _at(array, indices, shape))


def _at(array: Any, indices: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> list[Any]:
    """Return the values at some indices of the result's shape, to which the array broadcasts."""
    xp = numpy_namespace()
    if not indices:
        return []
    whole = array if array.shape == shape else xp.broadcast_to(array, shape)
    return values_at(whole, indices)


def values_at(array: Any, indices: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the elements of an array at some indices, as Python numbers."""
    array = numpy_namespace().asarray(array)
    found = [array[i].item() for i in indices]
    return [x if isinstance(x, (bool, int, complex)) else float(x) for x in found]
