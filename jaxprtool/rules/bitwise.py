"""Rows of bitwise operations and shifts of integers and booleans; they have no derivatives."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.monoids import Monoid, exactly_associative
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lower import hlo
from jaxprtool.ir.dtypes import DType, dtype_of
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.axes import lowest
from jaxprtool.makers.elementwise import elementwise, in_bytes, nary, numpy_function
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

_BITS, _INTEGER = "biu", "iu"


def _width(x: Value) -> int:
    """Return the width of an element in bits.

    For types narrower than a byte that is less than the storage it takes.
    """
    return dtype_of(x.dtype).bits  # type: ignore[union-attr]


def _as_kind(xp: Namespace, x: Value, kind: str) -> Value:
    """Return the bits of `x` as signed ("i") or unsigned ("u") integers of at least one byte."""
    width = _width(x)
    if width >= 8:
        return x.view(xp.dtype(f"{kind}{x.dtype.itemsize}"))
    rest = xp.uint8(8 - width)
    high = xp.left_shift(x.astype(xp.int8).view(xp.uint8), rest)
    return xp.right_shift(high if kind == "u" else high.view(xp.int8), rest.astype(f"{kind}1"))


def _in_range(xp: Namespace, x: Value, y: Value) -> tuple[Value, Value]:
    """Return whether each shift is in [0, width), and the shifts as unsigned numbers, with 0 in the
    place of the others.
    """
    by = _as_kind(xp, y, "u")
    valid = by < _width(x)
    return valid, xp.where(valid, by, xp.zeros_like(by))


def _shift_left_impl(xp: Namespace, x: Value, y: Value) -> Value:
    valid, by = _in_range(xp, x, y)
    shifted = xp.left_shift(_as_kind(xp, x, "u"), by)
    return xp.where(valid, shifted, xp.zeros_like(shifted)).astype(x.dtype)


def _shift_right_logical_impl(xp: Namespace, x: Value, y: Value) -> Value:
    valid, by = _in_range(xp, x, y)
    shifted = xp.right_shift(_as_kind(xp, x, "u"), by)
    return xp.where(valid, shifted, xp.zeros_like(shifted)).astype(x.dtype)


def _shift_right_arithmetic_impl(xp: Namespace, x: Value, y: Value) -> Value:
    """Shift right; where the shift is out of range, by width - 1, which leaves copies of the sign
    only.
    """
    valid, by = _in_range(xp, x, y)
    by = xp.where(valid, by, xp.asarray(_width(x) - 1, by.dtype))
    signed = _as_kind(xp, x, "i")
    return xp.right_shift(signed, by.astype(signed.dtype)).astype(x.dtype)


def _all_ones(dtype: DType) -> Value:
    """Return the number of a type whose bits are all 1."""
    return True if dtype.kind == "b" else lowest(dtype, 1) if dtype.kind == "u" else -1


for _op, _function, _hlo, _unit in (
    (lax.and_, "bitwise_and", "and", _all_ones),
    (lax.or_, "bitwise_or", "or", lambda dtype: 0),
    (lax.xor, "bitwise_xor", "xor", lambda dtype: 0),
):
    define(
        _op,
        **nary(_BITS),
        impl=in_bytes(numpy_function(_function)),
        **LOCALLY_CONSTANT,
        lower=hlo(_hlo),
        algebra=exactly_associative,
        monoid=lambda dtype, name=_function, unit=_unit: Monoid(name, unit(dtype)),
    )

define(
    lax.not_,
    **elementwise(_BITS),
    impl=in_bytes(numpy_function("invert")),
    **LOCALLY_CONSTANT,
    lower=hlo("not"),
)

for _op, _impl, _hlo in (
    (lax.shift_left, _shift_left_impl, "shift_left"),
    (lax.shift_right_logical, _shift_right_logical_impl, "shift_right_logical"),
    (lax.shift_right_arithmetic, _shift_right_arithmetic_impl, "shift_right_arithmetic"),
):
    define(
        _op,
        **nary(_INTEGER),
        impl=_impl,
        **LOCALLY_CONSTANT,
        lower=hlo(_hlo),
    )
