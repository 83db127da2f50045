"""Sample operands of exponentials, logarithms and the error functions."""

from __future__ import annotations

import math

import jax

from jaxprtool import ops as lax
from tests.rules.example import Example, arg

_SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, 50.0, -50.0]
_FLOATS = ["f32[3]", "f64[2,3]", "bf16[4]", "f16[]", "f32[0,2]"]
_COMPLEX = ["c64[3]", "c128[2,2]"]


def _of(op, types, domain="", **fields):
    return [Example(op, (arg(t, domain),), **fields) for t in types]


def _log2(x):
    """What JAX lowers its primitive to, which it has from 0.11 on."""
    log, scale = jax.lax.log(x), 1 / math.log(2)
    if jax.numpy.iscomplexobj(log):
        return jax.lax.complex(jax.lax.real(log) * scale, jax.lax.imag(log) * scale)
    return log * scale


EXAMPLES = [
    *[
        e
        for op in (lax.exp, lax.exp2, lax.expm1, lax.logistic)
        for e in _of(op, [*_FLOATS, *_COMPLEX])
    ],
    *[e for op in (lax.log, lax.log1p) for e in _of(op, [*_FLOATS, *_COMPLEX], "positive")],
    *_of(lax.log2, [*_FLOATS, *_COMPLEX], "positive", jax=_log2),
    *[e for op in (lax.erf, lax.erfc) for e in _of(op, _FLOATS)],
    *_of(lax.erf_inv, _FLOATS, "unit"),
    *[
        Example(op, (arg("f32[10]", values=_SPECIAL),), smooth=False)
        for op in (
            lax.exp,
            lax.exp2,
            lax.expm1,
            lax.logistic,
            lax.log,
            lax.log1p,
            lax.erf,
            lax.erfc,
            lax.erf_inv,
        )
    ],
]
