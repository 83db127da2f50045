"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.interpreters.elementwise import by_kind, elementwise, numpy_function
from jaxprtool.interpreters.jvp import derivative, jvp_terms
from jaxprtool.interpreters.lower import hlo
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.rules import complex_values
from jaxprtool.rules.define import define


def _inverse_root(sign: int, x: Any) -> Any:
    """1 / sqrt(1 + sign * x^2)."""
    square = lax.square(x)
    return lax.rsqrt(lax.add(square, 1.0) if sign > 0 else lax.sub(1.0, square))


def _over(denominator: Callable[[Any], Any]) -> Maker:
    """The jvp rule of a function whose derivative is 1 / denominator(x)."""
    return jvp_terms(lambda t, y, x: lax.div(t, denominator(x)))


# operation, NumPy's function, StableHLO's operation, derivative from x and y = f(x)
_ROWS: Any = (
    (lax.sin, "sin", "sine", derivative(lambda x, y, **params: lax.cos(x, **params))),
    (
        lax.cos,
        "cos",
        "cosine",
        derivative(lambda x, y, **params: lax.neg(lax.sin(x, **params))),
    ),
    (lax.tan, "tan", "tan", derivative(lambda x, y, **_: lax.add(lax.square(y), 1.0))),
    (
        lax.tanh,
        "tanh",
        "tanh",
        derivative(lambda x, y, **_: lax.mul(lax.sub(1.0, y), lax.add(y, 1.0))),
    ),
    (lax.asin, "arcsin", "chlo.asin", derivative(lambda x, y: _inverse_root(-1, x))),
    (lax.acos, "arccos", "chlo.acos", derivative(lambda x, y: lax.neg(_inverse_root(-1, x)))),
    (lax.atan, "arctan", "chlo.atan", _over(lambda x: lax.add(lax.square(x), 1.0))),
    (lax.sinh, "sinh", "chlo.sinh", derivative(lambda x, y: lax.cosh(x))),
    (lax.cosh, "cosh", "chlo.cosh", derivative(lambda x, y: lax.sinh(x))),
    (lax.asinh, "arcsinh", "chlo.asinh", derivative(lambda x, y: _inverse_root(1, x))),
    (
        lax.acosh,
        "arccosh",
        "chlo.acosh",
        derivative(lambda x, y: lax.rsqrt(lax.sub(lax.square(x), 1.0))),
    ),
    (
        lax.atanh,
        "arctanh",
        "chlo.atanh",
        _over(lambda x: lax.mul(lax.sub(1.0, x), lax.add(x, 1.0))),
    ),
)
for _op, _function, _hlo, _jvp in _ROWS:
    define(
        _op,
        **elementwise("fc"),
        impl=by_kind(numpy_function(_function), c=getattr(complex_values, _op.primitive.name)),
        jvp=_jvp,
        transpose=NONLINEAR,
        lower=hlo(_hlo),
    )
