"""Sample inputs of reductions of windows."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.params import Word
from tests.rules.example import Example, arg


def window_params(
    dimensions: tuple,
    strides: tuple | None = None,
    padding: tuple | None = None,
    base: tuple | None = None,
    inner: tuple | None = None,
) -> dict[str, Any]:
    """The params of windows; what is not given is all ones, and no padding."""
    ones = (1,) * len(dimensions)
    return {
        "window_dimensions": dimensions,
        "window_strides": strides or ones,
        "padding": padding or ((0, 0),) * len(dimensions),
        "base_dilation": base or ones,
        "window_dilation": inner or ones,
    }


POOLING = (
    ("f32[5]", window_params((2,))),
    ("f64[9]", window_params((8,))),
    ("f64[4,5]", window_params((2, 3), (2, 1), ((1, 0), (1, 2)))),
    ("f64[3,4]", window_params((2, 2), (1, 2), ((0, 1), (1, 1)), (2, 1))),
    ("f32[2,3,4]", window_params((1, 3, 2), (1, 1, 3))),
    ("f32[2,1]", window_params((3, 1))),
    ("f32[0,3]", window_params((1, 2))),
    ("bf16[6]", window_params((3,))),
    ("f16[6]", window_params((3,))),
    ("i32[3,3]", window_params((2, 2))),
    ("u8[5]", window_params((2,), padding=((1, 1),))),
)


def _pool(op: Any, x: str, params: dict[str, Any], values: Any = None) -> Example:
    return Example(op, (arg(x, values=values),), params, smooth=values is None)


def _jax_gather(t: Any, x: Any, *, select_prim: Any, **params: Any) -> Any:
    from jax._src.lax import lax as jax_lax
    from jax._src.lax.windowed_reductions import select_and_gather_add_p

    prim = {"ge": jax_lax.ge_p, "le": jax_lax.le_p}[select_prim]
    return select_and_gather_add_p.bind(t, x, select_prim=prim, **params)


def _jax_scatter(source: Any, x: Any, *, select_prim: Any, **params: Any) -> Any:
    from jax._src.lax import lax as jax_lax
    from jax._src.lax.windowed_reductions import select_and_scatter_add_p

    prim = {"ge": jax_lax.ge_p, "le": jax_lax.le_p}[select_prim]
    return select_and_scatter_add_p.bind(source, x, select_prim=prim, **params)


def _gather(x: str, prim: str, params: dict[str, Any]) -> Example:
    params = {"select_prim": Word(prim), **params}
    return Example(lax.select_and_gather_add, (arg(x), arg(x)), params, jax=_jax_gather)


def _scatter(source: str, x: str, prim: str, params: dict[str, Any], values: Any = None) -> Example:
    params = {k: v for k, v in params.items() if "dilation" not in k}
    params = {"select_prim": Word(prim), **params}
    operands = (arg(source), arg(x, values=values))
    return Example(
        lax.select_and_scatter_add, operands, params, smooth=values is None, jax=_jax_scatter
    )


NAN, INF = float("nan"), float("inf")

EXAMPLES = [
    *(
        _pool(op, x, params)
        for op in (lax.reduce_window_sum, lax.reduce_window_max, lax.reduce_window_min)
        for x, params in POOLING
    ),
    _pool(lax.reduce_window_sum, "c64[5]", window_params((2,))),
    _pool(
        lax.reduce_window_sum,
        "f64[3,4]",
        window_params((2, 2), (1, 2), ((0, 1), (1, 1)), (2, 1), (1, 2)),
    ),
    _pool(lax.reduce_window_sum, "f64[5]", window_params((2,), (1,), ((-1, 1),), (2,))),
    _pool(lax.reduce_window_max, "bool[4]", window_params((2,))),
    _pool(lax.reduce_window_max, "f32[4]", window_params((2,)), [1.0, 1.0, NAN, -INF]),
    *(
        _gather(x, prim, params)
        for prim, x, params in (
            ("ge", "f32[5]", window_params((2,))),
            ("le", "f64[4,5]", window_params((2, 3), (2, 1), ((1, 0), (1, 2)))),
            ("ge", "f64[3,4]", window_params((2, 2), (1, 2), ((0, 1), (1, 1)), (2, 1))),
            ("le", "bf16[6]", window_params((3,), (2,))),
            ("ge", "f32[0]", window_params((1,))),
        )
    ),
    _scatter("f32[4]", "f32[5]", "ge", window_params((2,))),
    _scatter("f64[2,6]", "f64[4,5]", "le", window_params((2, 3), (3, 1), ((1, 0), (1, 2)))),
    _scatter("bf16[2]", "bf16[6]", "ge", window_params((3,), (3,))),
    _scatter("i32[3]", "i32[4]", "ge", window_params((2,))),
    _scatter("f32[2]", "f32[4]", "ge", window_params((2,), (2,)), [1.0, 1.0, 0.0, 0.0]),
    _scatter("f32[0]", "f32[1]", "ge", window_params((2,))),
]
