"""The row of the regularized incomplete beta function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import broadcast_batch
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.jvp import jvp_terms
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import BOOL as _BOOL
from jaxprtool.ir.dtypes import INT32 as _INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import check_same_dtype
from jaxprtool.makers.decomposed import lowered_as
from jaxprtool.makers.elementwise import (
    broadcast_avals,
    check_kind,
    full_like,
    in_float32,
    where,
)
from jaxprtool.makers.loops import while_loop
from jaxprtool.rules.define import define
from jaxprtool.rules.special.gamma import no_derivative
from jaxprtool.rules.special.incomplete_gamma import widened

_NAME = "regularized_incomplete_beta"


def _type(a: Aval, b: Aval, x: Aval) -> Aval:
    avals = (a, b, x)
    for aval in avals:
        check_kind(_NAME, aval, "f")
    check_same_dtype(_NAME, avals)
    return broadcast_avals(_NAME, avals)


def _special_values(a: Value, b: Value, x: Value) -> tuple[Value, Value, Value]:
    """Return masks of where the function is 0, where it is 1, and where it is undefined.

    If a parameter is 0 or infinite, the distribution is a point mass at 0 or 1.
    """
    a_zero, b_zero = (a == 0.0) | (b == math.inf), (b == 0.0) | (a == math.inf)
    zero = (b_zero & (x != 1.0)) | (a_zero & (x == 0.0))
    one = (a_zero & (x != 0.0)) | (b_zero & (x == 1.0))
    bad = (a < 0.0) | (b < 0.0) | (x < 0.0) | (x > 1.0) | (a_zero & b_zero)
    return zero, one, bad | (a != a) | (b != b) | (x != x)


def _impl(xp: Namespace, a: Value, b: Value, x: Value) -> Value:
    out = xp.special.betainc(a, b, x)
    zero, one, bad = _special_values(a, b, x)
    for mask, value in ((zero, 0.0), (one, 1.0), (bad, xp.nan)):
        out = xp.where(mask, out.dtype.type(value), out)
    return out


# -- the continued fraction ------------------------------------------------------------------------


def _coefficient(n: Value, a: Value, b: Value, x: Value) -> Value:
    """Return the n-th partial numerator of the continued fraction, n >= 1: DLMF 8.17.22, but 1 for
    n = 1.
    """
    dtype = get_aval(a).dtype
    m = lax.convert_element_type(lax.div(lax.sub(n, 1), 2), new_dtype=dtype)
    a_2m = a + 2.0 * m
    even = -(a + m) * (a + b + m) * x / (a_2m * (a_2m + 1.0))
    even = where(m == 0.0, -(a + b) * x / (a + 1.0), even)  # a may be too small to divide by
    odd = m * (b - m) * x / ((a_2m - 1.0) * a_2m)
    out = where(lax.rem(n, 2) == 0, even, odd)
    return where(n == 1, full_like(x, 1.0), out)


def _fraction(a: Value, b: Value, x: Value) -> Value:
    """Return the continued fraction, by the modified method of Lentz (Numerical Recipes, 5.2)."""
    dtype = get_aval(a).dtype
    tiny, terms = (2.0**-24, 200) if dtype.name == "float32" else (2.0**-53, 600)
    shape = get_aval(a).shape

    def guarded(v: Value) -> Value:
        return where(lax.abs(v) < tiny, full_like(v, tiny), v)

    def holds(n: Value, on: Any, *_: Value) -> Value:
        return (n < terms) & on

    def step(
        n: Value, on: Any, c: Value, d: Any, h: Value, a: Value, b: Value, x: Value
    ) -> list[Value]:
        top = _coefficient(lax.broadcast_in_dim(n, shape=shape) if shape else n, a, b, x)
        c, d = guarded(1.0 + top / c), 1.0 / guarded(1.0 + top * d)
        change = c * d
        moving = lax.abs(change - 1.0) >= tiny
        on = lax.reduce_or(moving, axes=tuple(range(len(shape))))
        return [n + 1, on, c, d, h * change, a, b, x]

    first = lax.convert_element_type(1, new_dtype=_INT32)
    on = lax.convert_element_type(True, new_dtype=_BOOL)
    start = full_like(x, tiny)
    zero = full_like(x, 0.0)
    return while_loop(holds, step, first, on, start, zero, start, a, b, x)[4]


def _value(a: Value, b: Value, x: Value) -> Value:
    zero, one, bad = _special_values(a, b, x)
    direct = x < (a + 1.0) / (a + b + 2.0)
    a0, (a, b, x) = a, (where(direct, a, b), where(direct, b, a), where(direct, x, 1.0 - x))
    smallest = 2.0**-125 if get_aval(a).dtype.name == "float32" else 2.0**-1021
    rest = lax.lgamma(b) - lax.lgamma(a + b)
    factor = lax.exp(lax.log(x) * a + lax.log1p(-x) * b - (lax.lgamma(a) + rest)) / a
    factor = where(a < smallest, lax.exp(lax.log1p(-x) * b - rest), factor)
    out = _fraction(a, b, x) * factor
    out = where(direct, out, 1.0 - out)
    for mask, value in ((zero, 0.0), (one, 1.0), (bad, math.nan)):
        out = where(mask, full_like(a0, value), out)
    return out


def _regularized_incomplete_beta(_avals: Sequence[Aval], a: Value, b: Value, x: Value) -> Value:
    return widened(_value, a, b, x)


def _density(a: Value, b: Value, x: Value) -> Value:
    """Return the derivative by x: x^(a-1) (1-x)^(b-1) / B(a, b)."""
    norm = lax.sub(lax.add(lax.lgamma(a), lax.lgamma(b)), lax.lgamma(lax.add(a, b)))
    left = lax.mul(lax.sub(b, 1.0), lax.log1p(lax.neg(x)))
    right = lax.mul(lax.sub(a, 1.0), lax.log(x))
    return lax.exp(lax.sub(lax.add(left, right), norm))


define(
    lax.regularized_incomplete_beta,
    abstract_eval=_type,
    impl=in_float32(_impl),
    jvp=jvp_terms(
        no_derivative(_NAME, "a"),
        no_derivative(_NAME, "b"),
        lambda t, y, a, b, x: lax.mul(t, _density(a, b, x)),
    ),
    transpose=NONLINEAR,
    batch=broadcast_batch,
    lower=lowered_as(_regularized_incomplete_beta),
    cost=AS_LOWERED,
    masks="inf",
)
