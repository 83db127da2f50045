"""Sample operands of special functions."""

from __future__ import annotations

import jax

from jaxprtool import ops as lax
from tests.rules.example import Example, arg


def _of(op, *types, domain="positive", **options):
    return Example(op, tuple(arg(t, domain) for t in types), **options)


_ORDERS = [1.0, 2.0, 3.0]

EXAMPLES = [
    *[_of(lax.lgamma, t) for t in ("f32[3]", "f64[2,2]", "bf16[3]", "f16[]")],
    *[_of(lax.digamma, t) for t in ("f32[3]", "f64[2]", "bf16[2]")],
    *[
        _of(op, t, domain="normal")
        for op in (lax.bessel_i0e, lax.bessel_i1e)
        for t in ("f32[3]", "f64[2,2]", "bf16[2]", "f32[0]")
    ],
    Example(lax.bessel_i0e, (arg("f64[3]", values=[-9.0, 20.0, 300.0]),)),
    *[_of(lax.igamma, t, t) for t in ("f64[3]", "f32[2,2]", "bf16[2]", "f32[0]")],
    _of(lax.igamma, "f64[3]", "f64[]"),
    *[_of(lax.igammac, t, t) for t in ("f64[3]", "f32[2]", "f16[2]")],
    *[_of(lax.igamma_grad_a, t, t, smooth=False) for t in ("f64[3]", "f32[2]")],
    *[
        _of(lax.random_gamma_grad, t, t, reverse=False, jax=jax.lax.random_gamma_grad)
        for t in ("f64[3]", "f32[2]")
    ],
    _of(lax.zeta, "f64[3]", "f64[3]", domain="above1", smooth=False, differentiable=False),
    _of(lax.zeta, "f32[2]", "f32[2]", domain="above1", smooth=False, differentiable=False),
    Example(
        lax.polygamma,
        (arg("f64[3]", values=_ORDERS), arg("f64[3]", "positive")),
        differentiable=False,
    ),
    Example(
        lax.polygamma,
        (arg("f32[3]", values=_ORDERS), arg("f32[3]", "positive")),
        differentiable=False,
    ),
    Example(
        lax.regularized_incomplete_beta,
        (arg("f64[2]", "positive"), arg("f64[2]", "positive"), arg("f64[2]", values=[0.2, 0.9])),
        differentiable=False,
    ),
    Example(
        lax.regularized_incomplete_beta,
        (arg("f32[]", values=0.5), arg("f32[2]", "positive"), arg("f32[2]", values=[0.2, 0.9])),
        differentiable=False,
    ),
]
