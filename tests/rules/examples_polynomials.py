"""Sample operands of polynomial."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from tests.rules.example import Example, arg


def _polynomial(x: str, *coefficients: str, **params: Any) -> Example:
    return Example(
        lax.polynomial, tuple(map(arg, (x, *coefficients))), params, jax=_polynomial_in_jax
    )


def _polynomial_in_jax(x: Any, *coefficients: Any, unroll: Any = None) -> Any:
    out = coefficients[-1]
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out if out.shape == (out + x).shape else out + 0 * x


EXAMPLES = [
    _polynomial("f64[3]", "f64[]", "f64[3]", "f64[]"),
    _polynomial("f32[]", "f32[]", "f32[]"),
    _polynomial("f64[2,3]", "f64[2,1]", "f64[1,3]", "f64[]"),
    _polynomial("f64[2]", *["f64[]"] * 10),
    _polynomial("f64[2]", *["f64[]"] * 3, unroll=2),
    _polynomial("c128[2]", "c128[2]", "c128[]"),
    _polynomial("i32[3]", "i32[]", "i32[3]"),
]
