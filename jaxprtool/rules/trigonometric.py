"""Rows of trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.interpreters.columns.ranges import within
from jaxprtool.interpreters.jvp import derivative, jvp_terms
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers import complex_values
from jaxprtool.makers.elementwise import by_kind, elementwise, full_like, numpy_function
from jaxprtool.rules.define import define


def _inverse_root(sign: int, x: Value) -> Value:
    """Return 1 / sqrt(1 + sign * x^2)."""
    square = lax.square(x)
    return lax.rsqrt(lax.add(square, 1.0) if sign > 0 else lax.sub(1.0, square))


def _over(denominator: Callable[[Value], Value]) -> Maker:
    """Return the jvp rule of a function whose derivative is 1 / denominator(x)."""
    return jvp_terms(lambda t, y, x: lax.div(t, denominator(x)))


def _by_parts(name: str) -> Callable[..., Value]:
    """Return the lower rule of sin or cos, which computes real and imaginary part separately.

    XLA's complex sine and cosine differ from JAX's. The formulas are sin(x + iy) = sin x cosh y + i
    cos x sinh y and cos(x + iy) = cos x cosh y - i sin x sinh y.
    """

    def rule(ctx: LoweringContext, z: HloValue, **_params: ParamValue) -> HloValue:
        out = ctx.out_aval
        if out.dtype.kind != "c":
            return ctx.op(name, z)
        part = out.update(dtype=out.dtype.real)

        def op(function: str, *values: Value) -> Value:
            return ctx.op(function, *values, out=part)

        zero, two = ctx.constant(0, part), ctx.constant(2, part)
        x, y = op("real", z), op("imag", z)
        up, down = (op("exponential_minus_one", v) for v in (y, op("negate", y)))
        sinh = op("divide", op("subtract", up, down), two)
        cosh = op("divide", op("add", op("add", up, down), two), two)
        sine, cosine = op("sine", x), op("cosine", x)
        upright = ctx.compare("EQ", x, zero)
        if name == "sine":
            real = ctx.select(upright, zero, op("multiply", sine, cosh))
            return ctx.op("complex", real, op("multiply", cosine, sinh))
        imag = ctx.select(upright, zero, op("multiply", op("negate", sine), sinh))
        return ctx.op("complex", op("multiply", cosine, cosh), imag)

    return rule


def _asin(x: Value) -> Value:
    other = lax.sqrt(lax.sub(1.0, lax.mul(x, x)))
    return lax.mul(lax.atan2(x, lax.add(other, 1.0)), 2.0)


def _acos(x: Value) -> Value:
    half = lax.atan2(lax.sqrt(lax.sub(1.0, lax.mul(x, x))), lax.add(x, 1.0))
    return lax.select_n(lax.ne(x, -1.0), full_like(x, math.pi), lax.mul(half, 2.0))


def _of_reals(f: Value) -> Value:
    """Return the earlier rule of a function that earlier releases computed so for real numbers."""
    return lambda x, **_: None if x.dtype.kind == "c" else f


# What releases before 0.2.6 computed, which had `atan2` alone.
_EARLIER = {
    lax.tan: lambda x, **_: lambda v: lax.div(lax.sin(v), lax.cos(v)),
    lax.asin: _of_reals(_asin),
    lax.acos: _of_reals(_acos),
    lax.atan: _of_reals(lambda v: lax.atan2(v, full_like(v, 1.0))),
}

# (primitive, name of NumPy's function, lower rule, jvp rule given the derivative of x and y = f(x))
_ROWS: Any = (
    (lax.sin, "sin", _by_parts("sine"), derivative(lambda x, y, **params: lax.cos(x, **params))),
    (
        lax.cos,
        "cos",
        _by_parts("cosine"),
        derivative(lambda x, y, **params: lax.neg(lax.sin(x, **params))),
    ),
    (lax.tan, "tan", hlo("tan"), derivative(lambda x, y, **_: lax.add(lax.square(y), 1.0))),
    (
        lax.tanh,
        "tanh",
        hlo("tanh"),
        derivative(lambda x, y, **_: lax.mul(lax.sub(1.0, y), lax.add(y, 1.0))),
    ),
    (lax.asin, "arcsin", hlo("chlo.asin"), derivative(lambda x, y: _inverse_root(-1, x))),
    (lax.acos, "arccos", hlo("chlo.acos"), derivative(lambda x, y: lax.neg(_inverse_root(-1, x)))),
    (lax.atan, "arctan", hlo("chlo.atan"), _over(lambda x: lax.add(lax.square(x), 1.0))),
    (lax.sinh, "sinh", hlo("chlo.sinh"), derivative(lambda x, y: lax.cosh(x))),
    (lax.cosh, "cosh", hlo("chlo.cosh"), derivative(lambda x, y: lax.sinh(x))),
    (lax.asinh, "arcsinh", hlo("chlo.asinh"), derivative(lambda x, y: _inverse_root(1, x))),
    (
        lax.acosh,
        "arccosh",
        hlo("chlo.acosh"),
        derivative(lambda x, y: lax.rsqrt(lax.sub(lax.square(x), 1.0))),
    ),
    (
        lax.atanh,
        "arctanh",
        hlo("chlo.atanh"),
        _over(lambda x: lax.mul(lax.sub(1.0, x), lax.add(x, 1.0))),
    ),
)
_RANGES = {
    **dict.fromkeys((lax.sin, lax.cos, lax.tanh), within(-1, 1)),
    **dict.fromkeys((lax.asin, lax.atan), within(-math.pi / 2, math.pi / 2)),
    lax.acos: within(0, math.pi),
    lax.cosh: within(1),
}
for _op, _function, _lower, _jvp in _ROWS:
    define(
        _op,
        **elementwise("fc"),
        impl=by_kind(numpy_function(_function), c=getattr(complex_values, _op.primitive.name)),
        jvp=_jvp,
        transpose=NONLINEAR,
        lower=_lower,
        masks="inf" if _op in (lax.tanh, lax.atan) else "nothing",
        range=_RANGES.get(_op),
        earlier=_EARLIER.get(_op),
    )
