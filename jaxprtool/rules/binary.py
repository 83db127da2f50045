"""Elementwise functions of two operands: arithmetic, extrema, powers, angles.

A tangent may be a scalar although the result is an array. Each term of a derivative has the shape
of the result nevertheless: it multiplies the tangent by a factor of that shape, or broadcasts it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import same_shape_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.monoids import (
    Monoid,
    exact_laws,
    exactly_associative,
    laws_of_products,
)
from jaxprtool.interpreters.columns.ranges import within
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.cost import PER_OUTPUT, Cost
from jaxprtool.interpreters.jvp import Zero, jvp_terms
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, Lit, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers import complex_values
from jaxprtool.makers.axes import check_same_dtype, compare_by_parts, lowest
from jaxprtool.makers.elementwise import (
    broadcast_avals,
    broadcast_to,
    by_kind,
    check_kind,
    common_aval,
    full_like,
    in_bytes,
    nary,
    numpy_function,
    unbroadcast,
)
from jaxprtool.makers.extrema import signed_zeros
from jaxprtool.rules.define import define

_NUMBER = "iufc"


def _shape(x: Value) -> tuple[int, ...]:
    return get_aval(x).shape


# -- sums and differences ------------------------------------------------------------------------


def _add_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    out = lax.add(*primals)
    dx, dy = tangents
    if type(dx) is not Zero and type(dy) is not Zero:
        return out, lax.add(dx, dy)
    return out, broadcast_to(dy if type(dx) is Zero else dx, _shape(out))


def _sub_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    out = lax.sub(*primals)
    dx, dy = tangents
    if type(dx) is not Zero and type(dy) is not Zero:
        return out, lax.sub(dx, dy)
    return out, broadcast_to(lax.neg(dy) if type(dx) is Zero else dx, _shape(out))


def _add_transpose(ct: Value, x: Value, y: Value) -> Value:
    return [unbroadcast(ct, v.aval) if is_linear(v) else None for v in (x, y)]


def _sub_transpose(ct: Value, x: Value, y: Value) -> Value:
    return [
        unbroadcast(ct, x.aval) if is_linear(x) else None,
        lax.neg(unbroadcast(ct, y.aval)) if is_linear(y) else None,
    ]


def _add_any_type(x: Aval, y: Aval) -> Aval:
    if x is not y and (x.shape != y.shape or x.dtype is not y.dtype):
        ill_typed(f"add_any of {x} and {y}: the types differ", "operand-types")
    check_kind("add_any", x, "b" + _NUMBER)
    return x


def _add_any_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    dx, dy = tangents
    out = lax.add_any(*primals)
    if type(dx) is Zero:
        return out, dy
    return out, dx if type(dy) is Zero else lax.add_any(dx, dy)


define(
    lax.add,
    **nary(_NUMBER),
    algebra=exactly_associative,
    impl=numpy_function("add"),
    jvp=_add_jvp,
    transpose=_add_transpose,
    lower=hlo("add"),
    monoid=lambda dtype: Monoid("add", -0.0 if dtype.kind == "f" else 0),
    sums="together",
)

define(
    lax.sub,
    **nary(_NUMBER),
    impl=numpy_function("subtract"),
    jvp=_sub_jvp,
    transpose=_sub_transpose,
    lower=hlo("subtract"),
    sums="together",
)

define(
    lax.add_any,
    **{**nary(_NUMBER), "abstract_eval": _add_any_type, "batch": same_shape_batch},
    algebra=exactly_associative,
    impl=numpy_function("add"),
    jvp=_add_any_jvp,
    transpose=lambda ct, x, y: [ct if is_linear(v) else None for v in (x, y)],
    lower=hlo("add"),
    sums="together",
)


# -- products and quotients ----------------------------------------------------------------------


def _mul_type(x: Aval, y: Aval, *, out_dtype: Any = None) -> Aval:
    if out_dtype is None and x.dtype is y.dtype and x.dtype.kind in _NUMBER:
        return common_aval("mul", x, y)
    check_kind("mul", x, _NUMBER)
    check_kind("mul", y, _NUMBER)
    if out_dtype is None:
        check_same_dtype("mul", (x, y))
    elif out_dtype.kind not in _NUMBER:
        ill_typed(f"mul out_dtype {out_dtype} is no type of numbers", "param-value")
    return broadcast_avals("mul", (x, y)).update(dtype=out_dtype)


class _MulImpl:
    """Evaluate `mul` on NumPy.

    `prepare` returns the bare ufunc where the element type of the result is that of the operands.
    """

    def __call__(self, xp: Namespace, x: Value, y: Value, *, out_dtype: ParamValue = None) -> Value:
        if out_dtype is None:
            return xp.multiply(x, y)
        dtype = xp.dtype_of_aval(out_dtype)
        return xp.multiply(x.astype(dtype), y.astype(dtype))

    def prepare(self, xp: Namespace, _ins: Any, _outs: Any, params: Any) -> Callable[..., Value]:
        if params["out_dtype"] is None:
            return xp.multiply
        return lambda x, y: self(xp, x, y, **params)


def _mul_transpose(ct: Value, x: Value, y: Value, *, out_dtype: ParamValue = None) -> Value:
    if is_linear(x) and is_linear(y):
        not_linear("mul", "both factors depend on them")
    linear, factor = (x, y) if is_linear(x) else (y, x)
    dtype = None if out_dtype is None else linear.aval.dtype
    product = lax.mul(ct, factor, out_dtype=dtype)
    out = unbroadcast(product, linear.aval)
    return [out, None] if is_linear(x) else [None, out]


_MULTIPLY = hlo("multiply")


def _mul_lower(
    ctx: LoweringContext, x: HloValue, y: HloValue, *, out_dtype: ParamValue = None
) -> HloValue:
    if out_dtype is not None:
        x, y = ctx.convert(x, ctx.out_aval.dtype), ctx.convert(y, ctx.out_aval.dtype)
    return _MULTIPLY(ctx, x, y)


define(
    lax.mul,
    **{**nary(_NUMBER), "abstract_eval": _mul_type},
    algebra=laws_of_products,
    impl=_MulImpl(),
    jvp=jvp_terms(
        lambda t, out, x, y, **params: lax.mul(t, y, **params),
        lambda t, out, x, y, **params: lax.mul(x, t, **params),
    ),
    transpose=_mul_transpose,
    lower=_mul_lower,
    monoid=lambda dtype: Monoid("multiply", 1),
    sums="product",
)


def _div_impl(xp: Namespace, x: Value, y: Value) -> Value:
    """Divide integers: round towards zero; if the divisor is 0, set all bits of the result."""
    whole = xp.floor_divide(xp.subtract(x, xp.fmod(x, y)), y)
    return xp.where(y == 0, xp.invert(xp.zeros_like(whole)), whole)


def _rem_impl(xp: Namespace, x: Value, y: Value) -> Value:
    """Return the remainder of integers, with the sign of x; x itself if the divisor is 0."""
    return xp.where(y == 0, x, xp.fmod(x, y))


def _divided(name: str, at_zero: Callable[..., HloValue]) -> Callable[..., HloValue]:
    """Return the lower rule of an integer division or remainder that never divides by zero.

    For other types it is `hlo(name)`.

    XLA ends the process when it divides one integer constant by another that is zero. For arguments
    it gives the same results as written here, so nothing is added when the divisor is a literal
    other than zero.

    Args:
      name: the operation in StableHLO.
      at_zero: `at_zero(ctx, x)` gives the result for a zero divisor.
    """
    plain = hlo(name)

    def rule(ctx: LoweringContext, x: HloValue, y: HloValue, **_: ParamValue) -> HloValue:
        divisor = ctx.eqn.inputs[1]
        is_number = type(divisor) is Lit and type(divisor.val) is int and divisor.val != 0
        if is_number or not ctx.out_aval.dtype.is_integer:
            return plain(ctx, x, y)
        shape, is_zero = ctx.out_aval.shape, ctx.compare("EQ", y, ctx.constant(0, y.aval))
        safe = ctx.select(is_zero, ctx.constant(1, y.aval), y)
        found, flags = plain(ctx, x, safe), ctx.fill(is_zero, shape)
        return ctx.select(flags, at_zero(ctx, ctx.fill(x, shape)), found)

    return rule


@Maker
def _division_cost(op: Any) -> Callable[..., int | Cost]:
    """Return the cost rule of a division: one operation for each integer, as in JAX's lowering,
    which does not guard against zero; for other types, the cost of the lowering here.
    """
    as_lowered = AS_LOWERED.make(op)

    def rule(in_avals: Sequence[Aval], out_avals: Sequence[Aval], **params: ParamValue) -> Any:
        of = PER_OUTPUT if out_avals[0].dtype.is_integer else as_lowered
        return of(in_avals, out_avals, **params)

    return rule


def _all_ones(ctx: LoweringContext, x: HloValue) -> HloValue:
    dtype = ctx.out_aval.dtype
    return ctx.constant(-1 if dtype.kind == "i" else (1 << dtype.bits) - 1, ctx.out_aval)


def _div_transpose(ct: Value, x: Value, y: Value) -> Value:
    if is_linear(y):
        not_linear("div", "the divisor depends on them")
    return [unbroadcast(lax.div(ct, y), x.aval), None]


def _truncated_quotient(x: Value, y: Value) -> Value:
    quotient = lax.div(x, y)
    return lax.mul(lax.sign(quotient), lax.floor(lax.abs(quotient)))


define(
    lax.div,
    **nary(_NUMBER, cost=_division_cost),
    impl=in_bytes(
        by_kind(numpy_function("divide"), i=_div_impl, u=_div_impl, c=complex_values.quotient)
    ),
    jvp=jvp_terms(
        lambda t, out, x, y: lax.div(t, y),
        # -t x / y^2, computed from values that the program has anyway, and in the divisor's own shape where it is broadcast.
        lambda t, out, x, y: lax.mul(lax.neg(lax.div(t, y)), out),
    ),
    transpose=_div_transpose,
    lower=_divided("divide", _all_ones),
    masks="inf",
    sums="quotient",
)

define(
    lax.rem,
    **nary("iuf", cost=_division_cost),
    impl=in_bytes(by_kind(numpy_function("fmod"), i=_rem_impl, u=_rem_impl)),
    jvp=jvp_terms(
        lambda t, out, x, y: broadcast_to(t, _shape(out)),
        lambda t, out, x, y: lax.mul(t, lax.neg(_truncated_quotient(x, y))),
    ),
    transpose=NONLINEAR,
    lower=_divided("remainder", lambda ctx, x: x),
    masks="inf",
)


# -- extrema ---------------------------------------------------------------------------------------


def extremum_jvp(op: Any) -> Value:
    """Return the jvp rule of `max` or `min`.

    The derivative is 1 by the operand that is the result, and 1/2 by each operand where they are
    equal.
    """

    def rule(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
        out = op(*primals)
        wins = [lax.eq(x, out) for x in primals]
        shares = _scalar_shares if get_aval(out).ndim == 0 else _shares
        parts = [
            lax.mul(t, lax.div(*shares(mine, other, get_aval(out).dtype)))
            for t, mine, other in zip(tangents, wins, wins[::-1], strict=True)
            if type(t) is not Zero
        ]
        return out, parts[0] if len(parts) == 1 else lax.add_any(*parts)

    return rule


def _shares(mine: Any, other: Value, dtype: DType) -> tuple[Value, Value]:
    """Return a mask that is 1 where an operand equals the result, and the number of operands that
    equal the result there, 1 or 2.

    Args:
      mine: where this operand equals the result.
      other: where the other operand does.
      dtype: the element type of both results.
    """
    won, lost = (lax.convert_element_type(x, new_dtype=dtype) for x in (mine, other))
    return won, lax.add(lost, 1.0)


def _scalar_shares(mine: Any, other: Value, dtype: DType) -> tuple[Value, Value]:
    """Return what `_shares` does, for operands of rank 0.

    It selects between literals, and so needs fewer equations.
    """
    zero, one, two = (scalar_lit(n, dtype) for n in range(3))
    return lax.select_n(mine, zero, one), lax.select_n(other, one, two)


class _Extremum(numpy_function):
    """The impl rule of `max` and `min`.

    Complex numbers are compared by their real parts, then by their imaginary parts; y is the result
    if one of the compared parts is NaN.

    Attributes:
      compare: the name of the comparison that is true where x is the result.
      minus_wins: whether -0 is the result of +0 and -0.
    """

    __slots__ = ("compare", "minus_wins")

    def __init__(self, name: str, compare: str, minus_wins: bool):
        super().__init__(name)
        self.compare, self.minus_wins = compare, minus_wins

    def __call__(self, xp: Namespace, *values: Value, **_params: ParamValue) -> Value:
        x, y = values
        if x.dtype.kind != "c":
            out = super().__call__(xp, x, y)
            if x.dtype.kind in "biu":
                return out
            return signed_zeros(xp, x, y, out, minus_wins=self.minus_wins)
        better = getattr(xp, self.compare)
        by_imag, by_real = better(x.imag, y.imag), better(x.real, y.real)
        return xp.where(xp.where(x.real == y.real, by_imag, by_real), x, y)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        if in_avals[0].dtype.kind not in "biu":
            return functools.partial(self, xp)
        return super().prepare(xp, in_avals, out_avals, params)


def _extremum_lower(name: str, direction: str) -> Value:
    """Return the lower rule of `max` or `min`; complex numbers are compared by real, then imaginary
    part.
    """
    simple = hlo(name)

    def rule(ctx: LoweringContext, x: HloValue, y: HloValue) -> HloValue:
        out = ctx.out_aval
        if out.dtype.kind != "c":
            return simple(ctx, x, y)
        x, y = ctx.fill(x, out.shape), ctx.fill(y, out.shape)
        return ctx.select(compare_by_parts(ctx, direction, x, y), x, y)

    return rule


for _op, _function, _compare, _direction, _sign in (
    (lax.max, "maximum", "greater", "GT", -1),
    (lax.min, "minimum", "less", "LT", 1),
):
    define(
        _op,
        **nary("biufc"),
        impl=in_bytes(_Extremum(_function, _compare, minus_wins=_op is lax.min)),
        jvp=extremum_jvp(_op),
        transpose=NONLINEAR,
        lower=_extremum_lower(_function, _direction),
        algebra=exact_laws,
        monoid=lambda dtype, name=_function, sign=_sign: Monoid(name, lowest(dtype, sign)),
        masks="inf",
    )


# -- powers ----------------------------------------------------------------------------------------


def _pow_type(x: Aval, y: Aval) -> Aval:
    check_kind("pow", x, "fc")
    check_kind("pow", y, "iufc")
    if not y.dtype.is_integer:
        check_same_dtype("pow", (x, y))
    return broadcast_avals("pow", (x, y))


def _pow_impl(xp: Namespace, x: Value, y: Value) -> Value:
    y = y if y.dtype == x.dtype else y.astype(x.dtype)
    found, half = xp.power(x, y), y == 0.5
    if not half.any():
        return found
    # where the exponent is a broadcast 0.5, NumPy calls sqrt, which differs from pow at -inf and -0
    roots = xp.where(x == -xp.inf, xp.inf, xp.abs(found))
    return xp.where(half, roots, found).astype(x.dtype)[()]


def _pow_base_term(t: Value, _out: Value, x: Value, y: Value) -> Value:
    """Return t * y * x^(y-1), the derivative by the base; for an integer y = 0 it is 0 for all
    x.
    """
    if not get_aval(y).dtype.is_integer:
        return lax.mul(t, lax.mul(y, lax.pow(x, lax.sub(y, 1.0))))
    step = lax.convert_element_type(lax.ne(y, 0), new_dtype=get_aval(y).dtype)
    factor = lax.convert_element_type(y, new_dtype=get_aval(x).dtype)
    return lax.mul(t, lax.mul(factor, lax.pow(x, lax.sub(y, step))))


def _pow_exponent_term(t: Value, out: Value, x: Value, _y: Value) -> Value:
    """Return t * x^y * log(x), the derivative by the exponent, where log(0) counts as 0."""
    nonzero = lax.select_n(lax.eq(x, 0.0), x, full_like(x, 1.0))
    return lax.mul(t, lax.mul(lax.log(nonzero), out))


def _pow_lower(ctx: LoweringContext, x: HloValue, y: HloValue) -> HloValue:
    return hlo("power")(ctx, x, ctx.convert(y, x.aval.dtype))


define(
    lax.pow,
    **{**nary("fc"), "abstract_eval": _pow_type},
    impl=by_kind(_pow_impl, c=complex_values.power),
    jvp=jvp_terms(_pow_base_term, _pow_exponent_term),
    transpose=NONLINEAR,
    lower=_pow_lower,
    masks="both",
)


# -- angles and complex numbers --------------------------------------------------------------------


def _radius_squared(x: Value, y: Value) -> Value:
    return lax.add(lax.square(x), lax.square(y))


define(
    lax.atan2,
    **nary("fc"),
    impl=by_kind(numpy_function("arctan2"), c=complex_values.atan2),
    jvp=jvp_terms(
        lambda t, out, x, y: lax.mul(t, lax.div(y, _radius_squared(x, y))),
        lambda t, out, x, y: lax.mul(t, lax.div(lax.neg(x), _radius_squared(x, y))),
    ),
    transpose=NONLINEAR,
    lower=hlo("atan2"),
    masks="inf",
    range=within(-math.pi, math.pi),
)


def _complex_aval(aval: Aval) -> Aval:
    dtype = find_dtype(f"c{2 * aval.dtype.bits}")
    if dtype is None:
        ill_typed(f"complex does not take {aval}: its parts are f32 or f64", "operand-dtype")
    return aval.update(dtype=dtype)


def _complex_impl(xp: Namespace, x: Value, y: Value) -> Value:
    shape = xp.broadcast_shapes(x.shape, y.shape)
    out = xp.empty(shape, f"c{2 * x.dtype.itemsize}")
    out.real, out.imag = x, y
    return out


def _complex_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    out = lax.complex(*primals)
    shape = _shape(out)
    if type(tangents[0]) is Zero:
        return out, lax.complex(0.0, broadcast_to(tangents[1], shape))
    if type(tangents[1]) is Zero:
        return out, lax.complex(broadcast_to(tangents[0], shape), 0.0)
    return out, lax.complex(*tangents)


def _complex_transpose(ct: Value, x: Value, y: Value) -> Value:
    return [
        unbroadcast(lax.real(ct), x.aval) if is_linear(x) else None,
        unbroadcast(lax.neg(lax.imag(ct)), y.aval) if is_linear(y) else None,
    ]


define(
    lax.complex,
    **nary("f", _complex_aval),
    impl=_complex_impl,
    jvp=_complex_jvp,
    transpose=_complex_transpose,
    lower=hlo("complex"),
)
