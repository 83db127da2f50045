"""How values of literals and constants differ: how many elements, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.identity.canonical import canonical_scalar, element_of, flat_values
from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.jaxpr import Aval, Lit, Value

__all__ = ["Apart", "Near", "constants_apart"]


class Near(NamedTuple):
    """A tolerance: floats and complex numbers are equal where `|x - y| <= atol + rtol * max(|x|, |y|)`.

    Infinities and NaNs equal their like, and zeros of both signs are equal. Integers, booleans and keys are compared exactly.
    """

    rtol: float
    atol: float

    def same(self, x: Value, y: Value) -> bool:
        """Whether two numbers are equal."""
        if x == y or (x != x and y != y):
            return True
        apart = abs(x - y)
        return math.isfinite(apart) and apart <= self.atol + self.rtol * max(abs(x), abs(y))

    def literals(self, x: Lit, y: Lit) -> bool:
        """Whether two literals of one type are equal."""
        return constants_apart(x.val, y.val, x.aval, self) == Apart(0, x.aval.size)


class Apart(NamedTuple):
    """How two arrays of one type differ.

    Attributes:
      different: how many elements differ.
      size: how many elements there are.
      most: the largest difference of two numbers; None where no differing elements are numbers.
    """

    different: int
    size: int
    most: float | None = None

    def __str__(self) -> str:
        most = "" if self.most is None else f", max {self.most:.3g}"
        return f"{self.different:,} of {self.size:,} differ{most}"


def constants_apart(a: Value, b: Value, aval: Aval, near: Near | None = None) -> Apart | None:
    """Compare two values of a type.

    Args:
      a, b: arrays (NumPy's, JAX's, or the text of one), scalars or keys.
      aval: their type.
      near: the tolerance; None where all digits count.

    Returns:
      None where a value is not known, or they have different numbers of elements.
    """
    xs, ys = _elements(a), _elements(b)
    if xs is None or ys is None or len(xs) != len(ys):
        return None
    dtype = getattr(aval, "dtype", None)
    inexact = dtype is not None and dtype.is_inexact
    different, most = 0, -1.0
    for x, y in zip(xs, ys, strict=True):
        if x is y:
            continue
        if dtype is not None and inexact:
            x, y = element_of(x, dtype), element_of(y, dtype)
            if x == y and x:  # 0.0 == -0.0, and yet they differ
                continue
        if near is not None and inexact:
            same = near.same(x, y)
        else:
            same = canonical_scalar(x, dtype) == canonical_scalar(y, dtype)
        if not same:
            different += 1
            if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
                most = max(most, _distance(x, y))
    return Apart(different, len(xs), None if most < 0 else most)


def _distance(x: Any, y: Any) -> float:
    try:
        apart = float(abs(x - y))
    except OverflowError:
        return math.inf
    return math.inf if math.isnan(apart) else apart


def _elements(value: Value) -> Sequence[Value] | None:
    """Return the elements of a value; None where they are not known."""
    if value is None:
        return None
    data = words_of_key(value)
    if hasattr(data, "tolist"):
        return flat_values(data.tolist())
    return [data] if isinstance(data, (bool, int, float, complex)) else None
