"""Sample operands of operations on bits."""

from __future__ import annotations

import jax

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.releases import SERIES
from tests.rules.example import Example, arg


def _bitcast(t, new):
    return Example(
        lax.bitcast_convert_type, (arg(t),), {"new_dtype": find_dtype(new)}, smooth=False
    )


def _pair(op, first, second, **values):
    operands = arg(first, values=values.get("x")), arg(second, values=values.get("y"))
    known = op is not lax.nextafter or SERIES >= (0, 12)  # JAX has its derivative since then
    theirs = getattr(jax.lax, op.primitive.name, None)
    return Example(op, operands, smooth=False, jax=theirs, differentiable=known)


_POINTS = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")]

EXAMPLES = [
    _bitcast("f32[3]", "u32"),
    _bitcast("bf16[]", "i16"),
    _bitcast("f64[2]", "u16"),
    _bitcast("i32[]", "u8"),
    _bitcast("i8[4]", "u4"),
    _bitcast("f32[0,2]", "f32"),
    *[
        Example(op, (arg(t),))
        for op in (lax.population_count, lax.clz)
        for t in ("u8[5]", "i64[3]", "i16[]")
    ],
    *[
        Example(op, (arg("i32[4]", values=[0, -1, 1, 1 << 30]),))
        for op in (lax.population_count, lax.clz)
    ],
    _pair(lax.nextafter, "f32[7]", "f32[7]", x=_POINTS, y=_POINTS[::-1]),
    _pair(lax.nextafter, "bf16[7]", "bf16[7]", x=_POINTS, y=_POINTS[::-1]),
    _pair(lax.nextafter, "f64[3]", "f64[]"),
    _pair(lax.nextafter, "f16[1,2]", "f16[3,1]"),
    _pair(lax.mulhi, "i32[3]", "i32[3]", x=[-1, 1 << 30, -(1 << 31)], y=[5, 1 << 30, -(1 << 31)]),
    _pair(lax.mulhi, "u64[2]", "u64[2]", x=[2**64 - 1, 3], y=[2**64 - 1, 2**63]),
    _pair(lax.mulhi, "i64[3]", "i64[]", x=[-1, 2**62, -(2**63)], y=-(2**63)),
    _pair(lax.mulhi, "u8[4]", "u8[4]"),
]
