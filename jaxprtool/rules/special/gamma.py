"""Rows of the logarithm of the gamma function, its derivatives, and the Hurwitz zeta function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from jaxprtool import ops as lax
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.jvp import derivative, jvp_terms
from jaxprtool.interpreters.lower import hlo
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.diagnostics import Diagnostic, MissingRuleError
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.elementwise import elementwise, in_float32, nary
from jaxprtool.rules.define import define

_FLOAT = "f"


def no_derivative(name: str, operand: str) -> Callable[..., NoReturn]:
    """Return a term of a jvp rule that raises MissingRuleError, for an operand by which JAX has no
    derivative either.
    """

    def term(*_args: Value, **_params: ParamValue) -> NoReturn:
        message = f"{name} has no derivative by {operand}, in JAX neither"
        raise MissingRuleError(Diagnostic(message, "no-rule"), name)

    return term


def _digamma(xp: Namespace, x: Value) -> Value:
    """Return digamma(x); NaN at all poles, whereas SciPy returns an infinity at zero."""
    return xp.where(x == 0, x.dtype.type(xp.nan), xp.special.psi(x))


# (2j)! / B(2j), for the Euler-Maclaurin tail of the zeta function
_TAIL = tuple(
    math.factorial(2 * j) * denominator / numerator
    for j, (numerator, denominator) in enumerate(
        [
            (1, 6),
            (-1, 30),
            (1, 42),
            (-1, 30),
            (5, 66),
            (-691, 2730),
            (7, 6),
            (-3617, 510),
            (43867, 798),
            (-174611, 330),
            (854513, 138),
            (-236364091, 2730),
        ],
        start=1,
    )
)


def _zeta_of_negative(xp: Namespace, x: Value, q: Value) -> Value:
    """Return zeta(x, q) for q < 0 as XLA computes it: ten terms (q + i)^-x, and the Euler-Maclaurin
    formula for the rest.

    The formula is wrong if q + 10 is not well above zero, where SciPy sums more terms. XLA uses it
    nevertheless, so that its derivatives of digamma have these values.
    """
    one, a = x.dtype.type(1), q + x.dtype.type(10)
    total = sum(xp.power(q + x.dtype.type(i), -x) for i in range(10))
    power, tail = xp.power(a, -x), xp.zeros_like(x)
    for j in reversed(range(len(_TAIL))):
        rising = (x + x.dtype.type(2 * j + 1)) * (x + x.dtype.type(2 * j + 2))
        tail = one / x.dtype.type(_TAIL[j]) + rising / (a * a) * tail
    return total + power * a / (x - one) + power * (one / 2 + x / a * tail)


def _zeta(xp: Namespace, x: Value, q: Value) -> Value:
    """Return zeta(x, q) with XLA's values at poles: +inf if x is even or 1, otherwise NaN; and at
    infinities.
    """
    nan, infinity = x.dtype.type(xp.nan), x.dtype.type(xp.inf)
    negative = (q < 0) & (x > 1) & (q > -infinity)
    out = xp.where(negative, _zeta_of_negative(xp, x, q), xp.special.zeta(x, q))
    at_pole = xp.where((xp.fmod(x, 2) == 0) | (x == 1), infinity, nan)
    out = xp.where((q <= 0) & (q == xp.floor(q)), at_pole, out)
    return xp.where(((q == xp.inf) & (x > 1)) | ((x == xp.inf) & (q <= 1)), nan, out)


def _polygamma(xp: Namespace, m: Value, x: Value) -> Value:
    """Return (-1)^(m+1) m! zeta(m + 1, x); NaN if m is negative or not an integer."""
    one = m.dtype.type(1)
    sign = xp.where(xp.fmod(m, 2) == 1, one, -one)
    value = sign * xp.exp(xp.special.gammaln(m + one)) * _zeta(xp, m + one, x)
    value = xp.where(m == 0, _digamma(xp, x), value)
    return xp.where((m < 0) | (m != xp.floor(m)), m.dtype.type(xp.nan), value)


define(
    lax.lgamma,
    **elementwise(_FLOAT),
    impl=in_float32(lambda xp, x: xp.special.gammaln(xp.where(x == -xp.inf, -x, x))),
    jvp=derivative(lambda x, y: lax.digamma(x)),
    transpose=NONLINEAR,
    lower=hlo("chlo.lgamma"),
)

define(
    lax.digamma,
    **elementwise(_FLOAT),
    impl=in_float32(_digamma),
    jvp=derivative(lambda x, y: lax.polygamma(1.0, x)),
    transpose=NONLINEAR,
    lower=hlo("chlo.digamma"),
)

define(
    lax.polygamma,
    **nary(_FLOAT),
    impl=in_float32(_polygamma),
    jvp=jvp_terms(
        no_derivative("polygamma", "its order m"),
        lambda t, y, m, x: lax.mul(t, lax.polygamma(lax.add(m, 1.0), x)),
    ),
    transpose=NONLINEAR,
    lower=hlo("chlo.polygamma"),
)

define(
    lax.zeta,
    **nary(_FLOAT),
    impl=in_float32(_zeta),
    jvp=jvp_terms(
        no_derivative("zeta", "its exponent x"),
        lambda t, y, x, q: lax.mul(t, lax.neg(lax.mul(x, lax.zeta(lax.add(x, 1.0), q)))),
    ),
    transpose=NONLINEAR,
    lower=hlo("chlo.zeta"),
)
