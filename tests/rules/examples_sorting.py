"""Sample inputs of sorting, and of the largest elements."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from tests.rules.example import Example, arg

SPECIAL = [1.0, float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1.0, -2.0]


def _sort(
    *types: str, dimension: int = 0, num_keys: int = 1, values: Any = None, is_stable: bool = True
) -> Example:
    args = tuple(arg(t, values=values if i == 0 else None) for i, t in enumerate(types))
    params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
    return Example(lax.sort, args, params, smooth=values is None)


def _top_k(x: str, k: int, axis: int, values: Any = None) -> Example:
    return Example(
        lax.top_k, (arg(x, values=values),), {"k": k, "axis": axis}, smooth=values is None
    )


def _approx(
    x: str, k: int, axis: int, is_max: bool = True, aggregate: bool = True, recall: float = 0.95
) -> Example:
    params = {
        "k": k,
        "reduction_dimension": axis,
        "recall_target": recall,
        "is_max_k": is_max,
        "reduction_input_size_override": -1,
        "aggregate_to_topk": aggregate,
    }
    return Example(lax.approx_top_k, (arg(x),), params)


EXAMPLES = [
    _sort("f32[5]"),
    _sort("f64[3,4]", "f64[3,4]", dimension=1),
    _sort("i32[6]", "f32[6]", "i32[6]", num_keys=2, values=[1, 0, 1, 0, 1, 0]),
    _sort("f32[8]", "i32[8]", values=SPECIAL),
    _sort("bf16[8]", values=SPECIAL),
    _sort("c64[2,3]", dimension=1),
    _sort("bool[5]", "u8[5]"),
    _sort("f32[0,2]"),
    _sort("f32[5]", "f32[5]", is_stable=False),
    _top_k("f32[2,5]", 3, 1),
    _top_k("f64[4,3]", 2, 0),
    _top_k("f32[7]", 7, 0, SPECIAL[:1] + SPECIAL[2:]),
    _top_k("bf16[8]", 8, 0, SPECIAL),
    _top_k("i32[5]", 2, 0, [1, 3, 3, -7, 3]),
    _top_k("u32[5]", 0, 0),
    _top_k("f32[100]", 3, 0),
    _top_k("i64[1,70]", 2, 1, [i * 7 % 5 for i in range(70)]),  # many of each
    _top_k("i8[50]", 2, 0, [3] * 50),
    _top_k("f64[40]", 1, 0, [*[0.0] * 19, *SPECIAL, *[-0.0] * (21 - len(SPECIAL))]),
    _approx("f32[2,5]", 3, -1),
    _approx("f32[6,2]", 2, 0, is_max=False),
    _approx("f32[200,2]", 1, 0, aggregate=False),
    _approx("f32[200,2]", 1, 0, recall=0.5),
]
