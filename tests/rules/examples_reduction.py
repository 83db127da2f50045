"""Sample inputs of reductions."""

from __future__ import annotations

import functools
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import Example, arg


def _jax_reducer(name: str, x: Any, *, axes: tuple) -> Any:
    import jax

    return getattr(jax.lax, name)(x, axes)


def _reduce(op: Any, x: str, *axes: int, values: Any = None, smooth: bool = True) -> Example:
    name = op.primitive.name
    reference = None if name == "reduce_sum" else functools.partial(_jax_reducer, name)
    return Example(op, (arg(x, values=values),), {"axes": axes}, smooth, jax=reference)


def _arg(op: Any, x: str, axis: int, dtype: str = "i32", values: Any = None) -> Example:
    params = {"axes": (axis,), "index_dtype": find_dtype(dtype)}
    return Example(op, (arg(x, values=values),), params)


NAN, INF = float("nan"), float("inf")

EXAMPLES = [
    *(
        _reduce(op, x, *axes)
        for op in (lax.reduce_sum, lax.reduce_prod)
        for x, axes in (
            ("f32[4]", (0,)),
            ("f64[2,3]", (1,)),
            ("f64[2,3]", (0, 1)),
            ("f32[2,3,4]", (0, 2)),
            ("f64[3,2]", (1, 0)),
            ("f32[2,1]", (1,)),
            ("f32[2,3]", ()),
            ("f32[]", ()),
            ("f32[0,2]", (0,)),
            ("bf16[4,2]", (0,)),
            ("f16[5]", (0,)),
            ("c64[3]", (0,)),
            ("i32[3,2]", (0,)),
            ("u8[5]", (0,)),
        )
    ),
    _reduce(lax.reduce_prod, "f64[4]", 0, values=[2.0, 0.0, 3.0, -1.0]),
    _reduce(lax.reduce_prod, "f64[4]", 0, values=[0.0, 2.0, 0.0, -1.0]),
    *(
        _reduce(op, x, *axes)
        for op in (lax.reduce_max, lax.reduce_min)
        for x, axes in (
            ("f32[4]", (0,)),
            ("f64[2,3]", (1,)),
            ("f64[2,3]", (0, 1)),
            ("f32[2,3,4]", (2, 0)),
            ("f32[2,3]", ()),
            ("f32[]", ()),
            ("bf16[4,2]", (0,)),
            ("f16[5]", (0,)),
            ("i32[3,2]", (0,)),
            ("u8[5]", (0,)),
            ("bool[4]", (0,)),
        )
    ),
    _reduce(lax.reduce_max, "f32[0,2]", 0, smooth=False),
    _reduce(lax.reduce_min, "i8[0]", 0),
    _reduce(lax.reduce_max, "bool[0]", 0),
    _reduce(lax.reduce_max, "f32[3]", 0, values=[1.0, 1.0, 0.0], smooth=False),
    _reduce(lax.reduce_max, "c64[3]", 0, values=[1 + 1j, 1 + 2j, -3], smooth=False),
    _reduce(lax.reduce_min, "c64[3]", 0, values=[1 + 1j, 1 + 2j, 3], smooth=False),
    *(
        _reduce(op, x, *axes)
        for op in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)
        for x, axes in (
            ("bool[2,3]", (1,)),
            ("bool[2,3]", (0, 1)),
            ("bool[0]", (0,)),
            ("i32[2,3]", (0,)),
            ("u8[0]", (0,)),
            ("i16[2]", ()),
        )
    ),
    *(
        _arg(op, *example)
        for op in (lax.argmax, lax.argmin)
        for example in (
            ("f32[4]", 0),
            ("f64[2,3]", 1, "i64"),
            ("f32[3,2]", 0, "u8"),
            ("bf16[5]", 0),
            ("i32[4]", 0),
            ("u16[4]", 0),
            ("bool[4]", 0),
            ("f32[4]", 0, "i32", [1.0, NAN, INF, NAN]),
            ("f32[4]", 0, "i32", [1.0, 1.0, 0.0, 0.0]),
            ("f16[3]", 0, "i32", [INF, INF, -INF]),
        )
    ),
]
