"""Sample operands of SearchSorted and Nonzero."""

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


def _nonzero(a: Any, *fill: Any, size: int, axes: tuple[int, ...], out: str = "int32") -> Example:
    params = {"size": size, "axes": axes, "out_dtype": find_dtype(out)}
    return Example(
        lax.nonzero,
        (a, *fill),
        params,
        smooth=False,
        jax=functools.partial(_nonzero_in_jax, of=params),
    )


def _nonzero_in_jax(a: Any, *fill: Any, of: dict[str, Any], **_: Any) -> Any:
    """The axes that are no batch axes are the last ones in these examples, or all there are."""
    import jax
    import jax.numpy as jnp

    batch = [i for i in range(a.ndim) if i not in of["axes"]]
    shape = tuple(a.shape[i] for i in batch)
    given = fill or [jnp.zeros((), of["out_dtype"].name)] * len(of["axes"])
    values = [jnp.broadcast_to(f, shape) for f in given]

    def find(x: Any, *fs: Any) -> Any:
        found = jnp.nonzero(x, size=of["size"], fill_value=fs)
        return tuple(i.astype(of["out_dtype"].name) for i in found)

    for _ in batch:
        find = jax.vmap(find)
    return list(find(a, *values))


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
    _nonzero(_sorted("i32[4]", 0, 2, 0, 1), _sorted("i32[]", -1), size=6, axes=(0,)),
    _nonzero(_sorted("f32[5]", 0, 2, -0.0, _NAN, 1), size=2, axes=(0,)),
    _nonzero(_sorted("f64[5]", 0, 2, 0, _INF, 0), size=4, axes=(0,)),
    _nonzero(_sorted("bool[2,3]", [True, False, True], [False, True, True]), size=3, axes=(0, 1)),
    _nonzero(
        _sorted("i32[2,3]", [0, 1, 1], [0, 0, 5]),
        _sorted("i64[2]", 7, -7),
        size=2,
        axes=(1,),
        out="int64",
    ),
    _nonzero(arg("f32[0]"), size=2, axes=(0,)),
    _nonzero(arg("f32[3]"), size=0, axes=(0,)),
]
