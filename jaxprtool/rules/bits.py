"""Rows of the operations on the bits of numbers.

Their derivatives are zero or do not exist, except that the derivative of `nextafter` by its first
operand is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.jvp import jvp_terms
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT8, INT32, UINT8, DType, dtype_of, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.decomposed import lowered_as, run_as
from jaxprtool.makers.elementwise import (
    as_dtype,
    broadcast_avals,
    broadcast_to,
    elementwise,
    full_like,
    nary,
)
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

_INTEGER = "iu"

# -- bitcast_convert_type --------------------------------------------------------------------------


def _bitcast_type(x: Aval, *, new_dtype: DType) -> Aval:
    new = dtype_of(new_dtype)
    if new is None or new.kind not in "biufc":
        ill_typed(f"bitcast_convert_type to {new_dtype}: not a numeric element type", "param-value")
    old = x.dtype
    if old is new:
        return x
    if old.kind not in "iuf" or new.kind not in "iuf":
        ill_typed(
            f"bitcast_convert_type of {x} to {new}: booleans and complex numbers stay as they are",
            "operand-dtype",
        )
    if old.bits == new.bits:
        return x.update(dtype=new)
    if old.bits > new.bits:
        return ShapedArray((*x.shape, old.bits // new.bits), new)
    last = x.shape[-1] if x.shape else 1
    if last * old.bits != new.bits:
        ill_typed(
            f"bitcast_convert_type of {x} to {new}: the last axis has to hold the {new.bits} bits of "
            f"one element, and {last} * {old.bits} is not {new.bits}",
            "operand-shapes",
        )
    return ShapedArray(x.shape[:-1], new)


def _bitcast_impl(xp: Namespace, x: Value, *, new_dtype: DType) -> Value:
    old, new = dtype_of(x.dtype), dtype_of(new_dtype)
    assert old is not None and new is not None
    dtype = xp.dtype_of_aval(new)
    x = xp.ascontiguousarray(x).reshape(x.shape)  # which gives rank 0 an axis
    if old.bits == new.bits:
        return x.view(dtype)
    if old.bits < 8 or new.bits < 8:
        return _bitcast_parts(xp, x, old, new).reshape(
            (*x.shape, old.bits // new.bits) if old.bits > new.bits else x.shape[:-1]
        )
    if old.bits > new.bits:
        return x.reshape((*x.shape, 1)).view(dtype)
    return x.view(dtype).reshape(x.shape[:-1])


def _bitcast_parts(xp: Namespace, x: Value, old: Value, new: Value) -> Value:
    """Evaluate a bitcast from or to elements narrower than a byte.

    NumPy keeps each of them in a byte; the low bits come first.
    """
    width = min(old.bits, new.bits)
    holder = xp.dtype(f"u{old.itemsize}")
    if old.bits < 8:
        parts = x.view(holder) & holder.type((1 << old.bits) - 1)
    else:
        shifts = xp.arange(0, old.bits, width).astype(holder)
        parts = (x.reshape((-1, 1)).view(holder) >> shifts) & holder.type((1 << width) - 1)
    if new.bits < 8:
        if old.bits < new.bits:
            parts = _packed(xp, parts, old.bits, new.bits, xp.uint8)
        elif old.bits < 8:
            shifts = xp.arange(0, old.bits, new.bits).astype(xp.uint8)
            parts = (parts.reshape((-1, 1)) >> shifts) & xp.uint8((1 << new.bits) - 1)
        target = xp.dtype_of_aval(dtype_of(f"{new.kind}{new.bits}") or new)
        if new.kind == "i":
            sign = 1 << (new.bits - 1)
            return ((parts.astype(xp.int8) ^ sign) - sign).astype(target)
        return (
            parts.astype(xp.uint8).astype(target)
            if new.kind == "u"
            else _small_float(xp, parts, new)
        )
    return _packed(xp, parts, old.bits, new.bits, xp.dtype(f"u{new.itemsize}")).view(
        xp.dtype_of_aval(new)
    )


def _packed(xp: Namespace, parts: Value, width: int, wide: int, dtype: Any) -> Value:
    """Join parts of `width` bits, the lowest first, to integers of `wide` bits."""
    shifts = xp.arange(0, wide, width).astype(dtype)
    rows = parts.reshape((-1, wide // width)).astype(dtype)
    return xp.bitwise_or.reduce(rows << shifts, axis=1)


def _small_float(xp: Namespace, parts: Value, new: Value) -> Value:
    return parts.astype(xp.uint8).view(xp.dtype_of_aval(new))


def _bitcast_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], *, new_dtype: DType
) -> OutAndDim:
    """Move the batch axis to the front if it is the last one, since the last axis has to be that of the parts."""
    x, dim = vals[0], dims[0]
    if dim == get_aval(x).ndim - 1 and dim:
        x, dim = moveaxis(x, dim, 0), 0
    return lax.bitcast_convert_type(x, new_dtype=new_dtype), dim


def _bitcast_determined(in_avals: Sequence[Aval], params: dict[str, Any]) -> bool:
    """Return False for conversions from or to elements narrower than a byte, unless the widths are
    equal.

    For these, XLA's constant folding and its compiled code disagree (jaxlib 0.10.2).
    """
    widths = in_avals[0].dtype.bits, params["new_dtype"].bits
    return min(widths) >= 8 or widths[0] == widths[1]


define(
    lax.bitcast_convert_type,
    abstract_eval=_bitcast_type,
    impl=_bitcast_impl,
    **LOCALLY_CONSTANT,
    batch=_bitcast_batch,
    lower=lambda ctx, x, *, new_dtype: ctx.op("bitcast_convert", x),
    cost=AS_LOWERED,
    masks="both",
    determined=_bitcast_determined,
)

# -- counting, neighbours, high halves -------------------------------------------------------------


def _as_unsigned(xp: Namespace, x: Value) -> tuple[Value, int]:
    """Return x as unsigned integers that NumPy can compute with, and its width in bits."""
    dtype = dtype_of(x.dtype)
    assert dtype is not None
    if dtype.bits < 8:
        return x.astype(xp.int8).view(xp.uint8) & xp.uint8((1 << dtype.bits) - 1), dtype.bits
    return x.view(f"u{dtype.itemsize}"), dtype.bits


def _popcount_impl(xp: Namespace, x: Value) -> Value:
    """Count the bits that are 1; those of an i4 after sign extension to a byte, as XLA does on
    CPUs.
    """
    dtype = dtype_of(x.dtype)
    narrow = dtype is not None and dtype.kind == "i" and dtype.bits == 4
    bits = x.astype(xp.int8).view(xp.uint8) if narrow else _as_unsigned(xp, x)[0]
    return xp.bitwise_count(bits).astype(xp.int8 if narrow else bits.dtype).astype(x.dtype)


def _clz_impl(xp: Namespace, x: Value) -> Value:
    """Set all bits below the highest set bit; the bits that are still 0 are the leading zeros."""
    bits, width = _as_unsigned(xp, x)
    shift = 1
    while shift < width:
        bits = bits | (bits >> bits.dtype.type(shift))
        shift *= 2
    return (xp.uint8(width) - xp.bitwise_count(bits)).astype(x.dtype)


def _nextafter_impl(xp: Namespace, x: Value, y: Value) -> Value:
    """Return the next number from x towards y; from 0 it is the smallest subnormal number.

    For types that NumPy's `nextafter` does not know, it is computed from their bits.
    """
    if x.dtype.itemsize >= 4 or x.dtype == xp.float16:
        return xp.nextafter(x, y)
    return _nextafter_bits(xp, *xp.broadcast_arrays(x, y))


def _nextafter_bits(xp: Namespace, x: Value, y: Value) -> Value:
    unsigned = xp.dtype(f"u{x.dtype.itemsize}")
    sign = unsigned.type(1 << (dtype_of(x.dtype).bits - 1))  # type: ignore[union-attr]
    bits, other = (xp.ascontiguousarray(v).view(unsigned) for v in (x, y))
    magnitude, target = bits & ~sign, other & ~sign
    grows = (magnitude < target) & ((bits ^ other) & sign == 0)
    stepped = xp.where(grows, bits + unsigned.type(1), bits - unsigned.type(1))
    stepped = xp.where(magnitude == 0, (other & sign) | unsigned.type(1), stepped)
    out = xp.where(x == y, other, stepped).astype(unsigned).view(x.dtype)
    return xp.where(xp.isnan(x) | xp.isnan(y), xp.asarray(xp.nan, x.dtype), out).reshape(x.shape)


def _stepped(in_avals: Sequence[Aval], x: Value, y: Value) -> Value:
    """Return `nextafter` for types without a signed zero.

    Each number is converted to its integer position in the order of all numbers, with 0 for zero;
    the position is changed by 1 and converted back.
    """
    dtype, shape = in_avals[0].dtype, broadcast_avals("nextafter", in_avals).shape
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)

    def where(mask: Value, a: Value, b: Value) -> Value:
        return lax.select_n(mask, b, a)

    def mirrored(v: Value, mask: Value) -> Value:
        return where(mask, 128 - v, v) if dtype.has_nan_for_negative_zero else v

    bits = lax.bitcast_convert_type(x, new_dtype=UINT8)
    place = lax.convert_element_type(bits, new_dtype=INT32)
    place = mirrored(place, place > 127)
    place = where(x < y, place + 1, where(y < x, place - 1, place))
    bits = lax.convert_element_type(mirrored(place, place < 0), new_dtype=UINT8)
    out = lax.bitcast_convert_type(bits, new_dtype=dtype)
    return where(x != x, x, where(y != y, y, out))


@Maker
def _nextafter_rule(op: Any) -> Value:
    stepped = run_as(_stepped)(op)

    def impl(xp: Namespace, x: Value, y: Value) -> Value:
        dtype = dtype_of(x.dtype)
        assert dtype is not None
        return _nextafter_impl(xp, x, y) if dtype.has_signed_zero else stepped(xp, x, y)

    return impl


def _nextafter_lower(ctx: LoweringContext, x: HloValue, y: HloValue) -> HloValue:
    rule = hlo("chlo.next_after") if x.aval.dtype.has_signed_zero else lowered_as(_stepped)
    return rule(ctx, x, y)


def _mulhi_impl(xp: Namespace, x: Value, y: Value) -> Value:
    dtype = dtype_of(x.dtype)
    assert dtype is not None
    if dtype.bits == 64:
        return _mulhi_64(xp, x, y)
    wide = xp.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
    return ((x.astype(wide) * y.astype(wide)) >> wide.type(dtype.bits)).astype(x.dtype)


def _mulhi_64(xp: Namespace, x: Value, y: Value) -> Value:
    """Return the upper 64 bits of the product of 64-bit integers, from products of their 32-bit
    halves.

    For signed integers, the other factor is subtracted from the unsigned result for each negative
    one.
    """
    a, b = x.astype(xp.uint64), y.astype(xp.uint64)
    half, mask = xp.uint64(32), xp.uint64(0xFFFFFFFF)
    low, high = a & mask, a >> half
    other_low, other_high = b & mask, b >> half
    middle = high * other_low + ((low * other_low) >> half)
    cross = low * other_high + (middle & mask)
    out = high * other_high + (middle >> half) + (cross >> half)
    if x.dtype.kind == "i":
        zero = xp.uint64(0)
        out = out - xp.where(x < 0, b, zero) - xp.where(y < 0, a, zero)
    return out.astype(x.dtype)


def _mulhi_lower(ctx: LoweringContext, x: HloValue, y: HloValue) -> HloValue:
    """Write `chlo.mulhi`; for types narrower than a byte, a product in a wider type and a shift.

    XLA returns the wrong bits for the narrow types.
    """
    dtype = x.aval.dtype
    if dtype.bits >= 8:
        return hlo("chlo.mulhi")(ctx, x, y)
    wide, shift = (INT8, "arithmetic") if dtype.kind == "i" else (UINT8, "logical")
    out = ctx.out_aval.update(dtype=wide)
    factors = [ctx.convert(ctx.fill(v, out.shape), wide) for v in (x, y)]
    product = ctx.op("multiply", *factors, out=out)
    places = ctx.constant(dtype.bits, out)
    return ctx.convert(ctx.op(f"shift_right_{shift}", product, places, out=out), dtype)


def _clz_by_count(x: Aval) -> Value:
    """The earlier rule: ones below the highest one, counted."""

    def f(v: Value) -> Value:
        width = 1
        while width < x.dtype.bits:
            v = lax.or_(v, lax.shift_right_logical(v, full_like(v, width)))
            width *= 2
        return lax.sub(full_like(v, x.dtype.bits), lax.population_count(v))

    return f


def _mulhi_in_wide(x: Aval, y: Aval) -> Value:
    """The earlier rule: the product in a type of twice as many bits."""
    wide = find_dtype(x.dtype.name.replace(str(x.dtype.bits), str(2 * x.dtype.bits)))
    shift = lax.shift_right_arithmetic if x.dtype.kind == "i" else lax.shift_right_logical
    if wide is None:
        return None

    def f(x: Value, y: Value) -> Value:
        dtype = get_aval(x).dtype
        product = lax.mul(as_dtype(x, wide), as_dtype(y, wide))
        return as_dtype(shift(product, full_like(product, dtype.bits)), dtype)

    return f


define(
    lax.population_count,
    **elementwise(_INTEGER),
    impl=_popcount_impl,
    **LOCALLY_CONSTANT,
    lower=hlo("popcnt"),
)

define(
    lax.clz,
    **elementwise(_INTEGER),
    impl=_clz_impl,
    **LOCALLY_CONSTANT,
    lower=hlo("count_leading_zeros"),
    earlier=_clz_by_count,
)

define(
    lax.nextafter,
    **nary("f"),
    impl=_nextafter_rule,
    jvp=jvp_terms(lambda t, out, x, y: broadcast_to(t, get_aval(out).shape), None),
    transpose=NONLINEAR,
    lower=_nextafter_lower,
    masks="inf",
)

define(
    lax.mulhi,
    **nary(_INTEGER),
    impl=_mulhi_impl,
    **LOCALLY_CONSTANT,
    lower=_mulhi_lower,
    earlier=_mulhi_in_wide,
)
