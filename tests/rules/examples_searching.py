"""Sample operands of SearchSorted."""

from __future__ import annotations

import functools
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import Example, arg

_INF, _NAN = float("inf"), float("nan")


def _in_jax(a: Any, query: Any, *, of: dict[str, Any], **_: Any) -> Any:
    import jax
    import jax.numpy as jnp

    if jnp.issubdtype(a.dtype, jnp.complexfloating):
        raise TypeError("complex numbers have no order")

    def search(x: Any, q: Any) -> Any:
        return jnp.searchsorted(x, q, side=of["side"]).astype(of["out_dtype"].name)

    n = of["batch_dims"]
    for _ in range(a.ndim - n - 1):
        search = jax.vmap(search, in_axes=(0, None))
    for _ in range(n):
        search = jax.vmap(search)
    return search(jnp.moveaxis(a, of["dimension"], -1), query)


def _search(a: Any, query: Any, dimension: int = 0, out: str = "int32", **params: Any) -> Example:
    params = {"side": "left", "batch_dims": 0, "method": "scan", **params, "dimension": dimension}
    params["out_dtype"] = find_dtype(out)
    return Example(
        lax.search_sorted,
        (a, query),
        params,
        smooth=False,
        jax=functools.partial(_in_jax, of=params),
    )


def _sorted(t: str, *values: Any) -> Any:
    return arg(t, values=[*values])


EXAMPLES = [
    _search(_sorted("f32[4]", -1, 0.5, 0.5, 2), _sorted("f32[5]", 0.5, -3, 2, 3, 1)),
    _search(_sorted("f32[4]", -1, 0.5, 0.5, 2), _sorted("f32[2]", 0.5, 2), side="right"),
    _search(_sorted("f64[3]", -_INF, -0.0, _NAN), _sorted("f64[4]", 0, _NAN, _INF, -_INF)),
    _search(
        _sorted("f64[3]", -_INF, -0.0, _NAN),
        _sorted("f64[4]", 0, _NAN, _INF, -_INF),
        side="right",
        method="sort",
    ),
    _search(_sorted("i32[3]", -5, 0, 7), _sorted("i32[2,2]", [0, 1], [-9, 9]), out="int16"),
    _search(_sorted("u8[1]", 3), _sorted("u8[3]", 2, 3, 4)),
    _search(_sorted("bool[2]", False, True), arg("bool[]")),
    _search(_sorted("i32[2,3]", [1, 2, 3], [0, 5, 9]), _sorted("i32[2]", 2, 6), 1),
    _search(_sorted("i32[3,2]", [1, 0], [2, 5], [3, 9]), _sorted("i32[2]", 2, 6)),
    _search(
        _sorted("i32[2,3]", [1, 2, 3], [0, 5, 9]),
        _sorted("i32[2,4]", [0, 1, 2, 3], [9, 5, 1, -1]),
        1,
        batch_dims=1,
    ),
    _search(arg("f32[0]"), arg("f32[3]")),
    _search(arg("f32[3]"), arg("f32[0]")),
]
