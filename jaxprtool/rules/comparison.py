"""Rows of comparisons; their results are boolean, and they have no derivatives."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.columns.monoids import always_commutative
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.dtypes import dtype_of, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.elementwise import boolean, full_like, nary, numpy_function
from jaxprtool.makers.keys import compares_keys
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

_ORDERED, _ANY = "biuf", "biufck"


def _compare(direction: str, *, total: bool = False) -> Value:
    """Return the lower rule of a comparison; with `total`, floats are compared in the total
    order.
    """

    def rule(ctx: LoweringContext, x: HloValue, y: HloValue) -> HloValue:
        shape = ctx.out_aval.shape
        kind = "TOTALORDER" if total and x.aval.dtype.is_inexact else None
        return ctx.compare(direction, ctx.fill(x, shape), ctx.fill(y, shape), kind)

    return rule


for _op, _kinds, _function, _direction, _laws, _keys in (
    (lax.eq, _ANY, "equal", "EQ", always_commutative, compares_keys(lax.reduce_and)),
    (lax.ne, _ANY, "not_equal", "NE", always_commutative, compares_keys(lax.reduce_or)),
    (lax.lt, _ORDERED, "less", "LT", None, None),
    (lax.le, _ORDERED, "less_equal", "LE", None, None),
    (lax.gt, _ORDERED, "greater", "GT", None, None),
    (lax.ge, _ORDERED, "greater_equal", "GE", None, None),
):
    define(
        _op,
        **nary(_kinds, boolean),
        impl=numpy_function(_function),
        **LOCALLY_CONSTANT,
        lower=_compare(_direction),
        algebra=_laws,
        keys=_keys,
        masks="both",
        steers="all",
    )


def _place(xp: Namespace, x: Value) -> Value:
    """Return integers that are in the same order as floats in the total order.

    They are the bits of the floats; of negative numbers, all bits but the sign are flipped.

    Three kinds of narrow types are converted to f32 first, which is exact: types without a sign,
    types whose NaN has the bits of -0 (XLA orders it before all numbers), and types narrower than a
    byte.
    """
    dtype = dtype_of(x.dtype)
    assert dtype is not None
    if dtype.kind != "f":
        return x
    if dtype.bits < 8 or not dtype.has_signed_zero:
        x = x.astype(xp.float32)
    bits = xp.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    return xp.where(bits < 0, bits ^ xp.iinfo(bits.dtype).max, bits)


def _in_total_order(function: str) -> Value:
    """Return the impl rule of a comparison in the total order; `function` is NumPy's comparison.

    Complex numbers are equal where both parts are.
    """

    def impl(xp: Namespace, x: Value, y: Value) -> Value:
        compare = getattr(xp, function)
        if x.dtype.kind == "c":
            parts = [(_place(xp, f(x)), _place(xp, f(y))) for f in (xp.real, xp.imag)]
            return compare(*parts[0]) & compare(*parts[1])
        return compare(_place(xp, x), _place(xp, y))

    return impl


_WORDS = {"float64": "int64", "float32": "int32", "float16": "int16", "bfloat16": "int16"}


def _place_by_bits(x: Value) -> Value:
    """Return `_place` of floats, made of operations on their bits."""
    word = find_dtype(_WORDS.get(get_aval(x).dtype.name, ""))
    if word is None:
        return x
    bits = lax.bitcast_convert_type(x, new_dtype=word)
    most = full_like(bits, (1 << (word.bits - 1)) - 1)
    return lax.select_n(lax.lt(bits, full_like(bits, 0)), bits, lax.xor(bits, most))


def _by_places(op: Value) -> Value:
    """Return the earlier rule of a comparison in the total order: the order of integers is total."""

    def rule(x: Aval, y: Aval) -> Value:
        if x.dtype.is_inexact and x.dtype.name not in _WORDS:
            return None
        return lambda x, y: op(_place_by_bits(x), _place_by_bits(y))

    return rule


for _op, _kinds, _function, _direction, _partial in (
    (lax.eq_to, "biufc", "equal", "EQ", lax.eq),
    (lax.le_to, _ORDERED, "less_equal", "LE", lax.le),
    (lax.lt_to, _ORDERED, "less", "LT", lax.lt),
):
    define(
        _op,
        **nary(_kinds, boolean),
        impl=_in_total_order(_function),
        **LOCALLY_CONSTANT,
        lower=_compare(_direction, total=True),
        masks="both",
        steers="all",
        earlier=_by_places(_partial),
    )
