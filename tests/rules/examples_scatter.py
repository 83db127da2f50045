"""Sample inputs of the scatters."""

from __future__ import annotations

import functools
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Word
from jaxprtool.makers.indexing import update_jaxpr_of
from tests.rules.example import Example, arg

SCALARS = {
    "scatter-add": lax.add,
    "scatter-sub": lax.sub,
    "scatter-mul": lax.mul,
    "scatter-min": lax.min,
    "scatter-max": lax.max,
}


def _jax_scatter(
    name: str,
    x: Any,
    indices: Any,
    updates: Any,
    *,
    dimension_numbers: Any,
    mode: Any,
    update_jaxpr: Any,
    **params: Any,
) -> Any:
    import jax
    from jax._src.lax import slicing
    from jax.extend.core import primitives

    if update_jaxpr is not None:
        op = getattr(jax.lax, name.partition("-")[2])
        update_jaxpr = jax.make_jaxpr(op)(x.dtype.type(0), x.dtype.type(0)).jaxpr
    found = slicing if name == "scatter-sub" else primitives
    return getattr(found, name.replace("-", "_") + "_p").bind(
        x,
        indices,
        updates,
        dimension_numbers=jax.lax.ScatterDimensionNumbers(**dimension_numbers.fields),
        mode=jax.lax.GatherScatterMode[mode.member],
        update_jaxpr=update_jaxpr,
        **params,
    )


def _scatter(
    op: Any,
    x: str,
    indices: Any,
    updates: str,
    numbers: tuple,
    mode: str = "FILL_OR_DROP",
    dtype: str = "i32",
    values: Any = None,
    **flags: Any,
) -> Example:
    name = op.primitive.name
    element = find_dtype(x.partition("[")[0])
    params = {
        "dimension_numbers": lax.ScatterDimensionNumbers(*numbers),
        "mode": Word(f"GatherScatterMode.{mode}"),
        "unique_indices": False,
        "indices_are_sorted": False,
        "update_jaxpr": update_jaxpr_of(SCALARS[name], element) if name in SCALARS else None,
        "update_consts": (),
        **flags,
    }
    dims, inner = [], indices
    while isinstance(inner, list):
        dims.append(str(len(inner)))
        inner = inner[0] if inner else None
    where = arg(f"{dtype}[{','.join(dims)}]", values=indices)
    jax = functools.partial(_jax_scatter, name)
    args = (arg(x), where, arg(updates, values=values))
    # update_jaxpr is for one element type, so that only examples in f64 can be differenced
    smooth = x[:3] == "f64" and name not in ("scatter-min", "scatter-max")
    clipped = mode == "CLIP" and name in ("scatter-min", "scatter-max")
    rule_since = (0, 12) if clipped else ()  # before, its derivative leaves out what is clipped
    return Example(op, args, params, jax=jax, smooth=smooth, rule_since=rule_since)


_ACCUMULATING = (
    lax.scatter_add,
    lax.scatter_sub,
    lax.scatter_mul,
    lax.scatter_min,
    lax.scatter_max,
)

ROWS = ((1,), (0,), (0,))
COLUMNS = ((0,), (1,), (1,))
POINTS = ((), (0,), (0,))
WINDOWS = ((1, 2), (), (1, 0))
BATCHED = ((), (1,), (1,), (0,), (0,))

# `x.at[()].set(y)` of a scalar
SCALAR = ((), (), ())

EXAMPLES = [
    _scatter(lax.scatter, "f32[4,3]", [[2], [0], [2]], "f32[3,3]", ROWS),
    _scatter(lax.scatter, "f64[4,3]", [[2], [9]], "f64[2,3]", ROWS, "CLIP", unique_indices=True),
    _scatter(lax.scatter, "f32[5,4]", [[1, 0], [2, 2]], "f32[2,2,3]", WINDOWS, "CLIP"),
    _scatter(lax.scatter, "f32[2,4]", [[[0], [3]], [[1], [5]]], "f32[2,2]", BATCHED),
    _scatter(lax.scatter, "i8[4]", [[1], [1], [-1]], "i8[3]", POINTS, dtype="i64"),
    _scatter(lax.scatter, "bool[4]", [1], "bool[]", POINTS, dtype="u8"),
    _scatter(lax.scatter, "f32[4,3]", [], "f32[2,3]", ((0, 1), (), ()), unique_indices=True),
    _scatter(lax.scatter_add, "f32[4,3]", [[2], [0], [2]], "f32[3,3]", ROWS),
    _scatter(lax.scatter_add, "f64[3,4]", [[3], [0], [7]], "f64[2,3]", COLUMNS, "CLIP"),
    _scatter(lax.scatter_add, "f32[5,4]", [[1, 0], [2, 2]], "f32[2,2,3]", WINDOWS),
    _scatter(lax.scatter_add, "f32[2,4]", [[[0], [0]], [[1], [5]]], "f32[2,2]", BATCHED),
    _scatter(lax.scatter_add, "bf16[4]", [[1], [1], [2]], "bf16[3]", POINTS, "PROMISE_IN_BOUNDS"),
    _scatter(lax.scatter_add, "c64[4]", [[1], [1]], "c64[2]", POINTS),
    _scatter(lax.scatter_add, "u8[4]", [[1], [1]], "u8[2]", POINTS),
    _scatter(lax.scatter_sub, "f32[4,3]", [[2], [0], [2]], "f32[3,3]", ROWS),
    _scatter(lax.scatter_sub, "i32[4]", [[1], [1], [4]], "i32[3]", POINTS),
    _scatter(lax.scatter_mul, "f32[4,3]", [[2], [0]], "f32[2,3]", ROWS, unique_indices=True),
    _scatter(lax.scatter_mul, "f64[5,4]", [[2, 2]], "f64[1,2,3]", WINDOWS, unique_indices=True),
    _scatter(lax.scatter_mul, "i16[4]", [[1], [1], [4]], "i16[3]", POINTS),
    _scatter(lax.scatter_min, "f32[4,3]", [[2], [0], [2]], "f32[3,3]", ROWS),
    _scatter(lax.scatter_min, "u8[4]", [[1], [1]], "u8[2]", POINTS),
    _scatter(lax.scatter_max, "f64[4]", [[1], [1], [2]], "f64[3]", POINTS, values=[9, 9, 9.0]),
    _scatter(lax.scatter_max, "bf16[2,4]", [[[0], [3]], [[1], [2]]], "bf16[2,2]", BATCHED),
    _scatter(lax.scatter_max, "bool[4]", [[1], [1]], "bool[2]", POINTS),
    # every mode with places in and out of range; places that are sorted, and unique ones
    *[
        _scatter(op, "f64[4,3]", [[1], [9], [-1]], "f64[3,3]", ROWS, mode, unique_indices=unique)
        for op in (lax.scatter_sub, lax.scatter_min, lax.scatter_max, lax.scatter_mul)
        for mode, unique in (("CLIP", True), ("FILL_OR_DROP", True))
    ],
    *[
        _scatter(
            op,
            "f64[4]",
            [[0], [2], [3]],
            "f64[3]",
            POINTS,
            "PROMISE_IN_BOUNDS",
            unique_indices=True,
            indices_are_sorted=True,
        )
        for op in (lax.scatter, *_ACCUMULATING)
    ],
    *[
        _scatter(op, "f64[]", [], "f64[]", SCALAR, unique_indices=True)
        for op in (lax.scatter, *_ACCUMULATING)
    ],
]
