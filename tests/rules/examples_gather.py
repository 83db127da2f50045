"""Sample inputs of gather."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.params import Word
from tests.rules.example import Example, arg


def _jax_gather(x: Any, indices: Any, *, dimension_numbers: Any, mode: Any, **params: Any) -> Any:
    import jax

    return jax.lax.gather_p.bind(
        x,
        indices,
        dimension_numbers=jax.lax.GatherDimensionNumbers(**dimension_numbers.fields),
        mode=jax.lax.GatherScatterMode[mode.member],
        **params,
    )


def _gather(
    x: str,
    indices: Any,
    numbers: tuple,
    sizes: tuple,
    mode: str = "PROMISE_IN_BOUNDS",
    fill_value: Any = None,
    dtype: str = "i32",
    **flags: bool,
) -> Example:
    params = {
        "dimension_numbers": lax.GatherDimensionNumbers(*numbers),
        "slice_sizes": sizes,
        "mode": Word(f"GatherScatterMode.{mode}"),
        "fill_value": fill_value,
        "unique_indices": False,
        "indices_are_sorted": False,
        **flags,
    }
    dims, inner = [], indices
    while isinstance(inner, list):
        dims.append(str(len(inner)))
        inner = inner[0] if inner else None
    where = arg(f"{dtype}[{','.join(dims)}]", values=indices)
    smooth = fill_value is None or fill_value == fill_value  # no NaN
    return Example(lax.gather, (arg(x), where), params, smooth=smooth, jax=_jax_gather)


ROWS = ((1,), (0,), (0,))
COLUMNS = ((0,), (1,), (1,))
WINDOWS = ((1, 2), (), (1, 0))
BATCHED = ((), (1,), (1,), (0,), (0,))
NAN = float("nan")

EXAMPLES = [
    _gather("f32[4,3]", [[2], [0], [2]], ROWS, (1, 3)),
    _gather("f64[4,3]", [[2], [7], [-1]], ROWS, (1, 3), "CLIP"),
    _gather("f32[4,3]", [[2], [7], [-1]], ROWS, (1, 3), "FILL_OR_DROP", NAN),
    _gather("bf16[3,4]", [[3], [4]], COLUMNS, (3, 1), "FILL_OR_DROP", 2.5),
    _gather("c64[4,3]", [[0, 0], [3, 2]], ((), (0, 1), (1, 0)), (1, 1), "CLIP", dtype="u8"),
    _gather("f32[5,4]", [[1, 0], [9, 9]], WINDOWS, (2, 3), "CLIP"),
    _gather("f32[5,4]", [[1, 0], [0, 3]], WINDOWS, (2, 3), "FILL_OR_DROP", 0.0, "i64"),
    _gather("f32[2,4]", [[[0], [3], [3]], [[1], [5], [0]]], BATCHED, (1, 1), "CLIP"),
    _gather("f32[2,4]", [[[0], [3]], [[1], [5]]], BATCHED, (1, 1), "FILL_OR_DROP", NAN),
    _gather("f32[2,3,4]", [[[1], [9]]], ((0, 3), (1,), (2,)), (2, 1, 2), "CLIP"),
    _gather("f32[5]", [3], ((0,), (), (0,)), (2,), unique_indices=True, indices_are_sorted=True),
    _gather("f32[3,2]", [[], []], ((1, 2), (), ()), (2, 2)),
    _gather("f32[4,0]", [[2], [0]], ROWS, (1, 0)),
    _gather("i8[4]", [[2], [4]], ((), (0,), (0,)), (1,), "FILL_OR_DROP", -7),
    _gather("u32[4]", [[[2], [-4]]], ((), (0,), (0,)), (1,), "FILL_OR_DROP", 7),
    _gather("f32[4]", [9], ((), (0,), (0,)), (1,), "FILL_OR_DROP", NAN),
    _gather("bool[4]", [[2], [4]], ((), (0,), (0,)), (1,), "FILL_OR_DROP", True),
    _gather("f64[]", [], ((), (), ()), ()),
]
