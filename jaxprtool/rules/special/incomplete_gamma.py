"""Rows of the incomplete gamma functions and their derivatives by a.

For x < max(1, a) P(a, x) is a power series, otherwise 1 - P(a, x) is a continued fraction, as in
Cephes (Moshier). The derivatives by a are computed term by term along with them. Iterations go on
until all elements have converged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.jvp import instantiate, jvp, jvp_terms
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import FLOAT32, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.decomposed import decomposed, lowered_as, run_as
from jaxprtool.makers.elementwise import broadcast_to, full_like, in_float32, nary, where
from jaxprtool.makers.loops import while_loop
from jaxprtool.rules.define import define

_VALUE, _BY_A, _OF_SAMPLE = "value", "by_a", "of_sample"
_MAX_TERMS = 2000

# (machine epsilon, logarithm of the largest number) of the types that are computed in.
LIMITS = {"float32": (2.0**-23, 128 * math.log(2.0)), "float64": (2.0**-52, 1024 * math.log(2.0))}


def limits(dtype: DType) -> tuple[float, float]:
    """Return the machine epsilon, and the logarithm of the largest number, of a type of at least 32 bits."""
    return LIMITS[dtype.name]


def _any(mask: Value) -> Value:
    return lax.reduce_or(mask, axes=tuple(range(get_aval(mask).ndim)))


def _keep(on: Any, new: tuple[Value, ...], old: tuple[Value, ...]) -> list[Value]:
    """Return the new values of the elements where `on` is True, and the old values of the
    others.
    """
    return [where(on, x, y) for x, y in zip(new, old, strict=True)]


def _series(scale: Value, x: Value, a: Value, on: Any, mode: str) -> Value:
    """Return P(a, x) = scale / a * (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...), or its derivative by a.

    Only elements where `on` is True are iterated to convergence.
    """
    eps = limits(get_aval(a).dtype)[0]
    one, zero = full_like(a, 1.0), full_like(a, 0.0)

    def step(
        on: Any, r: Value, term: Value, total: Value, x: Value, dterm: Value, dtotal: Value
    ) -> Value:
        old = r, term, total, dterm, dtotal
        r = r + 1.0
        dterm = dterm * (x / r) - (term * x) / (r * r)
        dtotal = dtotal + dterm
        term = term * (x / r)
        total = total + term
        change = term / total if mode == _VALUE else lax.abs(dterm / dtotal)
        r, term, total, dterm, dtotal = _keep(on, (r, term, total, dterm, dtotal), old)
        return [on & (change > eps), r, term, total, x, dterm, dtotal]

    done = while_loop(lambda on, *_: _any(on), step, on, a, one, one, x, zero, zero)
    total, dtotal = done[3], done[6]
    if mode == _VALUE:
        return total * scale / a
    slope = lax.log(x) - lax.digamma(a + 1.0)
    if mode == _BY_A:
        return scale * (total * slope + dtotal) / a
    return -(dtotal + total * slope) * x / a


def _fraction_start(x: Value, a: Value) -> list[Value]:
    """Return the first carry of the continued fraction: its value, two numerators p and two
    denominators q, and their derivatives by a.
    """
    one, zero = full_like(x, 1.0), full_like(x, 0.0)
    y = 1.0 - a
    z = x + y + 1.0
    p, q = x + 1.0, z * x
    value = p / q
    dvalue = (value * x) / q
    return [value, y, z, p, q, one, x, zero, -x, zero, zero, dvalue]


def _fraction_step(mode: str, eps: float, n: Value, on: Any, *old: Value) -> list[Value]:
    value, y, z, p1, q1, p2, q2, dp1, dq1, dp2, dq2, dvalue = old
    n = n + 1.0
    y, z = y + 1.0, z + 2.0
    weight = y * n
    p, q = p1 * z - p2 * weight, q1 * z - q2 * weight
    usable = q != 0.0
    one = full_like(p, 1.0)
    ratio = p / q
    dp = dp1 * z - p1 - dp2 * weight + p2 * n
    dq = dq1 * z - q1 - dq2 * weight + q2 * n
    change = where(usable, lax.abs((value - ratio) / ratio), one)
    value = where(usable, ratio, value)
    dnew = where(usable, (dp - value * dq) / q, dvalue)
    if mode != _VALUE:
        change = where(usable, lax.abs(dnew - dvalue), one)
    large = lax.abs(p) > 1.0 / eps
    p, q, p1, q1, dp, dq, dp1, dq1 = (
        where(large, v * eps, v) for v in (p, q, p1, q1, dp, dq, dp1, dq1)
    )
    new = (value, y, z, p, q, p1, q1, dp, dq, dp1, dq1, dnew)
    return [n, on & (change > eps), *_keep(on, new, old)]


def _fraction(scale: Value, x: Value, a: Value, on: Any, mode: str) -> Value:
    """Return 1 - P(a, x) as a continued fraction, or the negative derivative of P by a.

    Only elements where `on` is True are iterated to convergence.
    """
    dtype = get_aval(a).dtype
    step = functools.partial(_fraction_step, mode, limits(dtype)[0])
    start = _fraction_start(x, a)
    first = lax.convert_element_type(0.0, new_dtype=dtype)
    done = while_loop(lambda n, on, *_: (n < _MAX_TERMS) & _any(on), step, first, on, *start)
    value, dvalue = done[2], done[-1]
    if mode == _VALUE:
        return value * scale
    slope = lax.log(x) - lax.digamma(a)
    if mode == _BY_A:
        return scale * (value * slope + dvalue)
    return -(dvalue + value * slope) * x


def _scale(a: Value, x: Value) -> tuple[Value, Value]:
    """Return x^a e^-x / Gamma(a), and a mask of where it underflows."""
    exponent = a * lax.log(x) - x - lax.lgamma(a)
    return lax.exp(exponent), exponent < -limits(get_aval(a).dtype)[1]


def _undefined(a: Value, x: Value) -> Value:
    return (x < 0.0) | (a < 0.0) | ((a == 0.0) & (x == 0.0)) | (a != a) | (x != x)


def _full(a: Value, value: float) -> Value:
    return full_like(a, value)


def _lower_value(a: Value, x: Value) -> Value:
    above = (x >= 1.0) & (x > a)
    scale, underflow = _scale(a, x)
    undefined, infinite, at_zero = _undefined(a, x), x == math.inf, x == 0.0
    on = ~(at_zero | undefined | underflow | infinite)
    out = where(
        above,
        1.0 - _fraction(scale, x, a, on & above, _VALUE),
        _series(scale, x, a, on & ~above, _VALUE),
    )
    out = where(at_zero, _full(a, 0.0), out)
    out = where(infinite, _full(a, 1.0), out)
    return where(undefined, _full(a, math.nan), out)


def _upper_value(a: Value, x: Value) -> Value:
    below = (x < 1.0) | (x < a)
    scale, underflow = _scale(a, x)
    undefined, vanishes = _undefined(a, x), (x == math.inf) | (a == 0.0)
    on = ~(undefined | underflow | vanishes)
    out = where(
        below,
        1.0 - _series(scale, x, a, on & below, _VALUE),
        _fraction(scale, x, a, on & ~below, _VALUE),
    )
    out = where(vanishes, _full(a, 0.0), out)
    return where(undefined, _full(a, math.nan), out)


def _slope(mode: str, a: Value, x: Value) -> Value:
    above = (x > 1.0) & (x > a)
    scale, underflow = _scale(a, x)
    undefined, at_zero = (x < 0.0) | (a <= 0.0) | (a != a) | (x != x), x == 0.0
    on = ~(at_zero | undefined | underflow)
    out = where(
        above,
        -_fraction(scale, x, a, on & above, mode),
        _series(scale, x, a, on & ~above, mode),
    )
    out = where(at_zero, _full(a, 0.0), out)
    return where(undefined, _full(a, math.nan), out)


def widened(f: Any, *xs: Value) -> Value:
    """Return f of the operands broadcast to one shape; 16-bit floats are computed in f32 and
    rounded once.
    """
    dtype = get_aval(xs[0]).dtype
    shape = max((get_aval(x).shape for x in xs), key=len)
    for x in xs:
        sizes = get_aval(x).shape
        if len(sizes) == len(shape):
            shape = tuple(n if m == 1 else m for n, m in zip(sizes, shape, strict=True))
    xs = tuple(broadcast_to(x, shape) for x in xs)
    if dtype.bits >= 32:
        return f(*xs)
    out = f(*[lax.convert_element_type(x, new_dtype=FLOAT32) for x in xs])
    return lax.convert_element_type(out, new_dtype=dtype)


def _igamma(_avals: Sequence[Aval], a: Value, x: Value) -> Value:
    return widened(_lower_value, a, x)


def _igammac(_avals: Sequence[Aval], a: Value, x: Value) -> Value:
    return widened(_upper_value, a, x)


def _igamma_grad_a(_avals: Sequence[Aval], a: Value, x: Value) -> Value:
    return widened(functools.partial(_slope, _BY_A), a, x)


def _random_gamma_grad(_avals: Sequence[Aval], a: Value, x: Value) -> Value:
    return widened(functools.partial(_slope, _OF_SAMPLE), a, x)


# -- rows ----------------------------------------------------------------------------------------


def _density(a: Value, x: Value) -> Value:
    """Return the derivative of P(a, x) by x: x^(a-1) e^-x / Gamma(a)."""
    exponent = lax.sub(lax.mul(lax.sub(a, 1.0), lax.log(x)), x)
    return lax.exp(lax.sub(exponent, lax.lgamma(a)))


def _by_scipy(name: str, f: Any) -> Value:
    """Return the impl rule that calls SciPy, or evaluates f if an operand is out of the domain or
    infinite.

    There, SciPy and JAX have different conventions.
    """

    @Maker
    def maker(op: Any) -> Value:
        expansion = run_as(f)(op)

        def impl(xp: Namespace, a: Value, x: Value) -> Value:
            if xp.all((a > 0) & (a < xp.inf) & (x >= 0) & (x < xp.inf)):
                return scipy(xp, a, x)
            return expansion(xp, a, x)

        scipy = in_float32(lambda xp, a, x: getattr(xp.special, name)(a, x))
        return impl

    return maker


define(
    lax.igamma,
    **nary("f"),
    impl=_by_scipy("gammainc", _igamma),
    jvp=jvp_terms(
        lambda t, y, a, x: lax.mul(t, lax.igamma_grad_a(a, x)),
        lambda t, y, a, x: lax.mul(t, _density(a, x)),
    ),
    transpose=NONLINEAR,
    lower=lowered_as(_igamma),
    masks="inf",
)

define(
    lax.igammac,
    **nary("f"),
    impl=_by_scipy("gammaincc", _igammac),
    jvp=jvp_terms(
        lambda t, y, a, x: lax.mul(t, lax.neg(lax.igamma_grad_a(a, x))),
        lambda t, y, a, x: lax.mul(t, lax.neg(_density(a, x))),
    ),
    transpose=NONLINEAR,
    lower=lowered_as(_igammac),
    masks="inf",
)

define(
    lax.igamma_grad_a,
    **nary("f"),
    **decomposed(_igamma_grad_a),
    jvp=unsupported("JAX has none either"),
    transpose=NONLINEAR,
    masks="inf",
)


def _sample_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    """Differentiate the loops, as JAX does, for which this derivative is a function of others."""
    tangents = [*map(instantiate, tangents)]
    return jvp(lambda a, x: _random_gamma_grad((), a, x), primals, tangents)


define(
    lax.random_gamma_grad,
    **nary("f"),
    **decomposed(_random_gamma_grad),
    jvp=_sample_jvp,
    transpose=NONLINEAR,
    masks="inf",
)
