"""Rows of exponentials, logarithms, the logistic function and the error functions."""

from __future__ import annotations

import math

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.ranges import within
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.jvp import derivative, jvp_terms
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers import complex_values
from jaxprtool.makers.elementwise import by_kind, elementwise, in_float32, numpy_function
from jaxprtool.rules.define import define

_FLOAT, _INEXACT = "f", "fc"


def _exp2_lower(ctx: LoweringContext, x: HloValue, *, accuracy: ParamValue) -> HloValue:
    scaled = ctx.op("multiply", ctx.constant(math.log(2.0), ctx.out_aval), x)
    return ctx.op("exponential", scaled)


def _log2_lower(ctx: LoweringContext, x: HloValue, *, accuracy: ParamValue) -> HloValue:
    part = ctx.out_aval.update(dtype=ctx.out_aval.dtype.real)
    scale, log = ctx.constant(1 / math.log(2.0), part), ctx.op("log", x)
    if part == ctx.out_aval:
        return ctx.op("multiply", log, scale)
    parts = [
        ctx.op("multiply", ctx.op(p, log, out=part), scale, out=part) for p in ("real", "imag")
    ]
    return ctx.op("complex", *parts)


def _logistic_impl(xp: Namespace, x: Value, *, accuracy: ParamValue) -> Value:
    one = x.dtype.type(1)
    return one / (one + xp.exp(-x))


def _logistic_lower(ctx: LoweringContext, x: HloValue, *, accuracy: ParamValue) -> HloValue:
    one = ctx.constant(1, ctx.out_aval)
    growth = ctx.op("exponential", ctx.op("negate", x))
    return ctx.op("divide", one, ctx.op("add", one, growth))


define(
    lax.exp,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("exp"), c=complex_values.exp),
    jvp=derivative(lambda x, y, **_: y),
    transpose=NONLINEAR,
    lower=hlo("exponential"),
    masks="inf",
    range=within(0, zero=False),
)

define(
    lax.exp2,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("exp2"), c=complex_values.exp2),
    jvp=derivative(lambda x, y, **_: lax.mul(y, math.log(2.0))),
    transpose=NONLINEAR,
    lower=_exp2_lower,
    masks="inf",
    range=within(0, zero=False),
    earlier=lambda x, **_: lambda v: lax.pow(2.0, v),
)

define(
    lax.expm1,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("expm1"), c=complex_values.expm1),
    jvp=derivative(lambda x, y, **_: lax.add(y, 1.0)),
    transpose=NONLINEAR,
    lower=hlo("exponential_minus_one"),
    masks="inf",
)

define(
    lax.log,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("log"), c=complex_values.log),
    jvp=jvp_terms(lambda t, y, x, **_: lax.div(t, x)),
    transpose=NONLINEAR,
    lower=hlo("log"),
)


define(
    lax.log2,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("log2"), c=complex_values.log2),
    jvp=jvp_terms(lambda t, y, x, **_: lax.div(t, lax.mul(x, math.log(2.0)))),
    transpose=NONLINEAR,
    lower=_log2_lower,
    earlier=lambda x, **_: lambda v: lax.div(lax.log(v), math.log(2.0)),
)

define(
    lax.log1p,
    **elementwise(_INEXACT),
    impl=by_kind(numpy_function("log1p"), c=complex_values.log1p),
    jvp=jvp_terms(lambda t, y, x, **_: lax.div(t, lax.add(x, 1.0))),
    transpose=NONLINEAR,
    lower=hlo("log_plus_one"),
)

define(
    lax.logistic,
    **elementwise(_INEXACT),
    impl=by_kind(in_float32(_logistic_impl), c=complex_values.logistic),
    jvp=derivative(lambda x, y, **_: lax.mul(y, lax.sub(1.0, y))),
    transpose=NONLINEAR,
    lower=_logistic_lower,
    masks="inf",
    range=within(0, 1, zero=False),
    earlier=lambda x, **_: lambda v: lax.div(1.0, lax.add(lax.exp(lax.neg(v)), 1.0)),
)


# -- the error function ------------------------------------------------------------------------


def _bell(scale: float, x: Value) -> Value:
    """Return scale * exp(-x^2)."""
    return lax.mul(lax.exp(lax.neg(lax.square(x))), scale)


define(
    lax.erf,
    **elementwise(_FLOAT),
    impl=in_float32(lambda xp, x: xp.special.erf(x)),
    jvp=derivative(lambda x, y: _bell(2 / math.sqrt(math.pi), x)),
    transpose=NONLINEAR,
    lower=hlo("chlo.erf"),
    masks="inf",
    range=within(-1, 1),
)

define(
    lax.erfc,
    **elementwise(_FLOAT),
    impl=in_float32(lambda xp, x, **_: xp.special.erfc(x)),
    jvp=derivative(lambda x, y, **_: _bell(-2 / math.sqrt(math.pi), x)),
    transpose=NONLINEAR,
    lower=hlo("chlo.erfc"),
    masks="inf",
    range=within(0, 2),
)

define(
    lax.erf_inv,
    **elementwise(_FLOAT),
    impl=in_float32(lambda xp, x: xp.copysign(xp.special.erfinv(x), x)),
    jvp=derivative(lambda x, y: lax.mul(lax.exp(lax.square(y)), math.sqrt(math.pi) / 2)),
    transpose=NONLINEAR,
    lower=hlo("chlo.erf_inv"),
)
