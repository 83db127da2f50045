"""Sample operands of the elementwise functions of one operand."""

from __future__ import annotations

from jax.extend.core.primitives import conj_p

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import Example, arg

_SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, -3e30]
_BOUNDS = [-128, -1, 0, 1, 127]


def _of(op, types, domain="", **params):
    return [Example(op, (arg(t, domain),), params) for t in types]


def _jax_conj(x, input_dtype):
    return conj_p.bind(x, input_dtype=input_dtype)


def _one_minus_square(x):
    if x.dtype == bool:
        raise TypeError("it is for numbers")
    return (1 + x) * (1 - x)


def _special(op, t="f32[9]", values=_SPECIAL, **params):
    return Example(op, (arg(t, values=values),), params, smooth=False)


FLOATS = ["f32[3]", "f64[2,3]", "bf16[4]", "f16[]", "f32[0,2]"]
INEXACT = [*FLOATS, "c64[3]", "c128[2,2]"]
INTEGERS = ["i8[5]", "i32[]", "u8[4]", "u32[2,2]", "i64[3]"]

EXAMPLES = [
    *_of(lax.neg, [*INEXACT, *INTEGERS]),
    _special(lax.neg, "i8[5]", _BOUNDS),
    *_of(lax.sign, [*INEXACT, *INTEGERS]),
    _special(lax.sign),
    Example(lax.sign, (arg("c64[3]", values=[0, 3 + 4j, -1j]),), smooth=False),
    *_of(lax.abs, [*INEXACT, "i8[5]", "i32[]", "i64[3]"]),
    _special(lax.abs),
    Example(lax.abs, (arg("c64[3]", values=[0, 3 + 4j, -1j]),), smooth=False),
    _special(lax.abs, "i8[5]", _BOUNDS),
    *_of(lax.square, [*INEXACT, *INTEGERS]),
    *[Example(lax.one_minus_square, (arg(t),), jax=_one_minus_square) for t in INEXACT],
    *_of(lax.floor, FLOATS),
    _special(lax.floor),
    *_of(lax.ceil, FLOATS),
    _special(lax.ceil),
    *_of(lax.round, FLOATS, rounding_method=0),
    *_of(lax.round, FLOATS, rounding_method=1),
    *[
        _special(
            lax.round,
            "f32[8]",
            [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, float("nan")],
            rounding_method=m,
        )
        for m in (0, 1)
    ],
    *_of(lax.is_finite, FLOATS),
    _special(lax.is_finite),
    *[
        e
        for y in (0, 1, 2, 3, 7, -1, -2, -5)
        for e in _of(lax.integer_pow, ["f32[3]", "f64[2]", "c64[2]"], "positive", y=y)
    ],
    *_of(lax.integer_pow, ["bf16[3]", "f16[3]"], "positive", y=3),
    *_of(lax.integer_pow, ["i8[5]", "u32[2]", "i64[]"], "any", y=5),
    _special(lax.integer_pow, y=2),
    _special(lax.integer_pow, y=-1),
    *_of(lax.sqrt, INEXACT, "positive"),
    _special(lax.sqrt),
    *_of(lax.rsqrt, INEXACT, "positive"),
    _special(lax.rsqrt),
    *_of(lax.cbrt, FLOATS),
    _special(lax.cbrt, "f32[4]", [8.0, -27.0, 1e-30, float("inf")]),
    *_of(lax.real, ["c64[3]", "c128[]"]),
    *_of(lax.imag, ["c64[3]", "c128[]"]),
    *[
        Example(
            lax.conj, (arg(t),), {"input_dtype": find_dtype(t.partition("[")[0])}, jax=_jax_conj
        )
        for t in ("c64[3]", "c128[]", "f32[2]", "f64[2,2]")
    ],
    *_of(lax.copy, ["f32[3]", "bf16[2]", "i32[]", "bool[4]", "c64[2]"]),
    *[
        Example(lax.stop_gradient, (arg(t),), smooth=False)
        for t in ("f32[3]", "bf16[2]", "i32[]", "bool[4]", "c64[2]")
    ],
    *[Example(lax.one_minus_square, (arg(t),), jax=_one_minus_square) for t in INTEGERS],
    Example(lax.one_minus_square, (arg("i8[5]", values=_BOUNDS),), jax=_one_minus_square),
]
EXAMPLES = [
    Example(e.op, e.args, e.params, smooth=False)
    if e.op in (lax.sign, lax.floor, lax.ceil, lax.round)
    else e
    for e in EXAMPLES
]
