"""Rows of comparisons; their results are boolean, and they have no derivatives."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.monoids import always_commutative
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.elementwise import boolean, nary, numpy_function
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


for _op, _kinds, _function, _direction in (
    (lax.eq_to, "biufc", "equal", "EQ"),
    (lax.le_to, _ORDERED, "less_equal", "LE"),
    (lax.lt_to, _ORDERED, "less", "LT"),
):
    define(
        _op,
        **nary(_kinds, boolean),
        impl=_in_total_order(_function),
        **LOCALLY_CONSTANT,
        lower=_compare(_direction, total=True),
        masks="both",
        steers="all",
    )
