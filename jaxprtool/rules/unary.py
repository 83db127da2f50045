"""Rows of elementwise functions of one operand: signs, rounding, powers, parts of complex numbers.

Derivatives are those of JAX, also at special points (that of `abs` is 1 at 0). In each jvp rule the
tangent is an operand of the last operation only, so that the linear part is one multiplication.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import ROUNDING_METHOD
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.ranges import Range, within
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, derivative, jvp_terms, linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import FLOAT32, FLOAT64, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers import complex_values
from jaxprtool.makers.elementwise import (
    boolean,
    by_kind,
    check_kind,
    elementwise,
    full_like,
    in_bytes,
    in_float32,
    numpy_function,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

_FLOAT, _INEXACT, _NUMBER = "f", "fc", "iufc"


def _real_part(aval: Aval) -> Value:
    return aval.update(dtype=aval.dtype.real) if aval.dtype.kind == "c" else aval


# -- linear ------------------------------------------------------------------------------------

define(
    lax.neg,
    **elementwise(_NUMBER),
    impl=in_bytes(numpy_function("negative")),
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval: lax.neg(ct)),
    lower=hlo("negate"),
    sums="kept",
)

define(
    lax.real,
    **elementwise("c", _real_part),
    impl=lambda xp, x: xp.real(x),
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval: lax.complex(ct, 0.0)),
    lower=hlo("real"),
)

define(
    lax.imag,
    **elementwise("c", _real_part),
    impl=lambda xp, x: xp.imag(x),
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval: lax.complex(0.0, lax.neg(ct))),
    lower=hlo("imag"),
)


def _conj_impl(xp: Namespace, x: Value, **_params: ParamValue) -> Value:
    return x + xp.complex64(0) if x.dtype.kind == "f" else xp.conjugate(x)


def _conj_lower(ctx: LoweringContext, x: HloValue, **_params: ParamValue) -> HloValue:
    part = _real_part(ctx.out_aval)
    if x.aval.dtype.kind == "f":
        return ctx.op("complex", x, ctx.constant(0, part))
    imag = ctx.op("negate", ctx.op("imag", x, out=part), out=part)
    return ctx.op("complex", ctx.op("real", x, out=part), imag)


def _complexified(aval: Aval) -> Value:
    if aval.dtype.kind == "c":
        return aval
    if aval.dtype not in (FLOAT32, FLOAT64):
        ill_typed(f"conj does not take {aval}: it has to be complex, f32 or f64", "operand-dtype")
    return aval.update(dtype=f"c{2 * aval.dtype.bits}")


_CONJ = elementwise("fc", _complexified)


@Maker
def _conj_type(op: Any) -> Callable[..., ShapedArray]:
    whole = _CONJ["abstract_eval"](op)

    def rule(x: ShapedArray, *, input_dtype: DType | None = None, **_params: ParamValue) -> Value:
        if input_dtype is not None and input_dtype is not x.dtype:
            ill_typed(
                f"conj has input_dtype={input_dtype.name}, and its operand is {x}", "bad-param"
            )
        return whole(x)

    return rule


define(
    lax.conj,
    **{**_CONJ, "abstract_eval": _conj_type},
    impl=_conj_impl,
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, aval, **_params: (
            lax.conj(ct, input_dtype=get_aval(ct).dtype) if aval.dtype.kind == "c" else lax.real(ct)
        )
    ),
    lower=_conj_lower,
)

define(
    lax.copy,
    **{**elementwise("biufck"), "cost": FREE},
    impl=lambda xp, x: x.copy(),
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval: lax.copy(ct)),
    lower=lambda ctx, x: x,
    keys=MOVES_KEYS,
    elements="kept",
    earlier=lambda x: lambda v: v,
)

define(
    lax.stop_gradient,
    **{**elementwise("biufck"), "cost": FREE},
    impl=lambda xp, x: x,
    **LOCALLY_CONSTANT,
    lower=lambda ctx, x: x,
    elements="kept",
)


# -- constant between jumps --------------------------------------------------------------------


def _sign_impl(xp: Namespace, x: Value) -> Value:
    """Evaluate; a zero keeps its sign; of complex numbers x / |x|."""
    dtype = dtype_of(x.dtype)
    if dtype is not None and dtype.kind == "c":
        size, out = xp.abs(x), xp.array(x)
        size = xp.where(size == 0, size.dtype.type(1), size)
        out.real, out.imag = x.real / size, x.imag / size
        return out[()]
    signed = dtype is not None and dtype.has_signed_zero
    return xp.copysign(xp.sign(x), x) if signed else xp.sign(x)


def _sign_lower(ctx: LoweringContext, x: HloValue) -> HloValue:
    if x.aval.dtype.kind != "u":
        return ctx.op("sign", x)
    zero, one = ctx.constant(0, x.aval), ctx.constant(1, x.aval)
    return ctx.select(ctx.compare("EQ", x, zero), zero, one)


def _round_type(x: Aval, *, rounding_method: int) -> Aval:
    if x.dtype.kind != "f":
        check_kind("round", x, _FLOAT)
    ROUNDING_METHOD.required("round", "rounding_method", rounding_method)
    return x


def _to_even(method: Any) -> bool:
    """Whether ties are rounded to the even neighbour, rather than away from zero."""
    return ROUNDING_METHOD.member(method) == "TO_NEAREST_EVEN"


def _round_impl(xp: Namespace, x: Value, *, rounding_method: int) -> Value:
    if _to_even(rounding_method):
        return xp.rint(x)
    whole = xp.trunc(x)
    away = whole + xp.copysign(xp.ones_like(x), x)
    return xp.where(xp.abs(x - whole) >= xp.asarray(0.5, x.dtype), away, whole)


def _round_lower(ctx: LoweringContext, x: HloValue, *, rounding_method: int) -> HloValue:
    method = "round_nearest_even" if _to_even(rounding_method) else "round_nearest_afz"
    return ctx.op(method, x)


def _round_as_before(x: Aval, *, rounding_method: int) -> Value:
    """The earlier rule: halfway between two integers the only way to round was away from zero."""
    if not _to_even(rounding_method):
        return None
    away = functools.partial(lax.round, rounding_method=0)

    def to_even(v: Value) -> Value:
        nearest = away(v)
        halfway = lax.eq(lax.abs(lax.sub(v, nearest)), 0.5)
        return lax.select_n(halfway, nearest, lax.mul(away(lax.mul(v, 0.5)), 2.0))

    return to_even


define(
    lax.sign,
    **elementwise(_NUMBER),
    impl=in_bytes(_sign_impl),
    **LOCALLY_CONSTANT,
    lower=_sign_lower,
    masks="inf",
    range=within(-1, 1),
)

define(
    lax.floor,
    **elementwise(_FLOAT),
    impl=numpy_function("floor"),
    **LOCALLY_CONSTANT,
    lower=hlo("floor"),
)

define(
    lax.ceil,
    **elementwise(_FLOAT),
    impl=numpy_function("ceil"),
    **LOCALLY_CONSTANT,
    lower=hlo("ceil"),
)

define(
    lax.round,
    **{**elementwise(_FLOAT), "abstract_eval": _round_type},
    impl=_round_impl,
    **LOCALLY_CONSTANT,
    lower=_round_lower,
    earlier=_round_as_before,
)

define(
    lax.is_finite,
    **elementwise(_FLOAT, boolean),
    impl=numpy_function("isfinite"),
    **LOCALLY_CONSTANT,
    lower=hlo("is_finite"),
    masks="both",
    range=within(0, 1),
)


# -- absolute value, powers and roots ----------------------------------------------------------


def _abs_term(t: Value, y: Value, x: Value) -> Value:
    """Return the tangent of |x|: Re(conj(x) t) / |x|; 0 at complex x = 0, and t at real x = 0."""
    if get_aval(x).dtype.kind != "c":
        return lax.select_n(lax.ge(x, 0.0), lax.neg(t), t)
    dtype = get_aval(x).dtype
    radius = lax.convert_element_type(y, new_dtype=dtype)
    radius = lax.select_n(lax.eq(radius, 0.0), radius, full_like(radius, 1.0))
    unit = lax.div(lax.conj(x, input_dtype=dtype), radius)
    return lax.real(lax.mul(t, unit))


def _abs_type(x: Aval) -> Aval:
    check_kind("abs", x, "ifc")
    if x.dtype.is_integer and x.dtype.bits < 8:
        ill_typed(
            f"abs does not take {x}: its integers have to have 8 bits or more", "operand-dtype"
        )
    return _real_part(x)


define(
    lax.abs,
    **{**elementwise("ifc"), "abstract_eval": _abs_type},
    impl=by_kind(numpy_function("absolute"), c=complex_values.absolute),
    jvp=jvp_terms(_abs_term),
    transpose=NONLINEAR,
    lower=hlo("abs"),
    range=within(0),
)

define(
    lax.square,
    **elementwise(_NUMBER),
    impl=in_bytes(by_kind(numpy_function("square"), c=complex_values.square)),
    jvp=derivative(lambda x, y: lax.mul(x, 2.0)),
    transpose=NONLINEAR,
    lower=lambda ctx, x: (
        ctx.op("chlo.square", x) if x.aval.dtype.is_inexact else ctx.op("multiply", x, x)
    ),
    range=within(0),
    earlier=lambda x: lambda v: lax.integer_pow(v, y=2),
)


def _one_minus_square_impl(xp: Namespace, x: Value) -> Value:
    one = x.dtype.type(1)
    return (one + x) * (one - x)  # exact near 1 and -1


def _one_minus_square_lower(ctx: LoweringContext, x: HloValue) -> HloValue:
    one = ctx.constant(1, ctx.out_aval)
    return ctx.op("multiply", ctx.op("add", one, x), ctx.op("subtract", one, x))


define(
    lax.one_minus_square,
    **elementwise(_NUMBER),
    impl=in_bytes(_one_minus_square_impl),
    jvp=derivative(lambda x, y: lax.mul(x, -2.0)),
    transpose=NONLINEAR,
    lower=_one_minus_square_lower,
    earlier=lambda x: lambda v: lax.mul(lax.add(v, 1), lax.sub(1, v)),
)


def _integer_pow_type(x: Aval, *, y: int) -> Aval:
    check_kind("integer_pow", x, _NUMBER)
    if type(y) is bool or not isinstance(y, int):
        ill_typed(f"integer_pow takes an integer exponent, and y is {y}", "param-value")
    if y < 0 and x.dtype.is_integer:
        ill_typed(
            f"integer_pow of {x} with y={y}: integers have no negative powers",
            "param-value",
            help="convert the operand to a floating type first",
        )
    return x


def _integer_pow_term(t: Value, _out: Value, x: Value, *, y: int) -> Value:
    if y == 0:
        return Zero(get_aval(t))
    if y == 1:
        return t
    power = x if y == 2 else lax.integer_pow(x, y=y - 1)
    return lax.mul(t, lax.mul(power, float(y)))


def _power(multiply: Any, x: Value, n: int) -> Value:
    """Return x^n for n >= 1 by repeated squaring, with products in the same order as XLA's."""
    acc = None
    while n:
        if n & 1:
            acc = x if acc is None else multiply(acc, x)
        n >>= 1
        if n:
            x = multiply(x, x)
    return acc


def _integer_pow_impl(xp: Namespace, x: Value, *, y: int) -> Value:
    if y == 0:
        return xp.ones_like(x)
    acc = _power(xp.multiply, x, abs(y))
    if y > 0:
        return acc
    one = xp.ones_like(acc)
    return complex_values.quotient(xp, one, acc) if acc.dtype.kind == "c" else xp.divide(one, acc)


def _integer_pow_lower(ctx: LoweringContext, x: HloValue, *, y: int) -> HloValue:
    if y == 0:
        return ctx.constant(1, ctx.out_aval)
    acc = _power(lambda a, b: ctx.op("multiply", a, b), x, abs(y))
    return ctx.op("divide", ctx.constant(1, ctx.out_aval), acc) if y < 0 else acc


define(
    lax.integer_pow,
    **{**elementwise(_NUMBER), "abstract_eval": _integer_pow_type},
    impl=_integer_pow_impl,
    jvp=jvp_terms(_integer_pow_term),
    transpose=NONLINEAR,
    lower=_integer_pow_lower,
    masks="both",
    range=lambda params: Range(0) if params["y"] % 2 == 0 else Range(),
)

define(
    lax.sqrt,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("sqrt"), c=complex_values.sqrt),
    jvp=derivative(lambda x, y, **_: lax.div(0.5, y)),
    transpose=NONLINEAR,
    lower=hlo("sqrt"),
    range=within(0),
)

define(
    lax.rsqrt,
    **elementwise(_INEXACT),
    impl=by_kind(
        in_float32(lambda xp, x, *, accuracy: xp.reciprocal(xp.sqrt(x))), c=complex_values.rsqrt
    ),
    jvp=derivative(lambda x, y, **_: lax.mul(lax.div(y, x), -0.5)),
    transpose=NONLINEAR,
    lower=hlo("rsqrt"),
    masks="inf",
    range=within(0, zero=False),
)

define(
    lax.cbrt,
    **elementwise(_FLOAT),
    impl=numpy_function("cbrt"),
    jvp=derivative(lambda x, y, **_: lax.mul(lax.integer_pow(y, y=-2), 1 / 3)),
    transpose=NONLINEAR,
    lower=hlo("cbrt"),
    earlier=lambda x, **_: lambda v: lax.mul(lax.sign(v), lax.pow(lax.abs(v), 1 / 3)),
)
