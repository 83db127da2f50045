"""Rows of `scaled_dot` and `scaled_matmul_wrapper`: contractions of arrays of narrow elements, with
one scale for each block of elements.

The blocks are those of the OCP Microscaling Formats (MX) Specification of the Open Compute Project
(2023). `scaled_dot` multiplies in bf16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import abstract_eval, ill_typed
from jaxprtool.interpreters.columns.determined import undetermined
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.dtypes import BFLOAT16, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import as_dtype
from jaxprtool.rules.define import define

__all__: list[str] = []

Axes = Sequence[int]


def _check_scale(name: str, side: str, x: Aval, scale: Aval, contracting: Axes) -> None:
    """Raise a type error for a scale whose shape does not fit its operand.

    Along contracting axes the size of the operand is a multiple of that of the scale; along others
    the sizes are equal.
    """
    least = 2 if name == "scaled_dot" else 1
    for axis, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if axis not in contracting and n != m:
            ill_typed(f"{name}: axis {axis} of {side} has size {n}, and that of its scale {m}")
        if axis in contracting and (m == 0 or n % m or n < least * m):
            what = (
                "twice that of its scale, {}, or a larger multiple"
                if least == 2
                else "a multiple of that of its scale, {}"
            )
            ill_typed(
                f"{name}: axis {axis} of {side}, which is contracted, has size {n}, and it has to be "
                f"{what.format(m)}"
            )


def _type(
    lhs: Aval,
    rhs: Aval,
    lhs_scale: Aval,
    rhs_scale: Aval,
    *,
    dimension_numbers: Any,
    preferred_element_type: DType | None,
) -> Aval:
    _check_operands("scaled_dot", lhs, rhs, lhs_scale, rhs_scale)
    wanted = BFLOAT16 if preferred_element_type is None else dtype_of(preferred_element_type)
    numbers = {"dimension_numbers": dimension_numbers, "precision": None, "out_sharding": None}
    narrow = [a.update(dtype=BFLOAT16, weak_type=False) for a in (lhs, rhs)]
    params = {**numbers, "preferred_element_type": wanted}
    (out,) = abstract_eval(lax.dot_general.primitive, narrow, params)
    (left, right), _ = dimension_numbers
    _check_scale("scaled_dot", "lhs", lhs, lhs_scale, left)
    _check_scale("scaled_dot", "rhs", rhs, rhs_scale, right)
    return out


def _check_operands(name: str, *avals: Aval) -> None:
    """Raise a type error for operands of different ranks, or that are no numbers."""
    if len({a.ndim for a in avals}) > 1:
        ill_typed(f"{name} takes operands of one rank, not {', '.join(map(str, avals))}")
    if any(a.dtype.kind not in "biufc" for a in avals):
        ill_typed(f"{name} takes numbers, not {', '.join(map(str, avals))}")


def _scaled(x: Value, scale: Value, contracting: Axes, dtype: DType = BFLOAT16) -> Value:
    """Return an operand times its scale, both converted to a type; of complex numbers only the real
    parts count.

    Scales are repeated along the contracting axes.
    """
    shape, held = get_aval(x).shape, get_aval(scale).shape
    blocks: list[int] = []
    places: list[int] = []
    for axis, (n, m) in enumerate(zip(shape, held, strict=True)):
        places.append(len(blocks))
        blocks += [m, n // m] if axis in contracting else [m]
    wide = lax.broadcast_in_dim(scale, shape=tuple(blocks), broadcast_dimensions=tuple(places))
    wide = lax.reshape(wide, new_sizes=shape)
    return lax.mul(*(as_dtype(v, dtype) for v in (x, wide)))


def _scaled_dot(
    _avals: Sequence[Aval],
    lhs: Value,
    rhs: Value,
    lhs_scale: Value,
    rhs_scale: Value,
    *,
    dimension_numbers: Any,
    preferred_element_type: DType | None,
) -> Value:
    (left, right), _ = dimension_numbers
    return lax.dot_general(
        _scaled(lhs, lhs_scale, left),
        _scaled(rhs, rhs_scale, right),
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def _batch(
    axis_size: int, vals: Any, dims: Any, *, dimension_numbers: Any, **params: ParamValue
) -> OutAndDim:
    """The batch rule: the batch axis of all operands goes to the front, as a further batch axis of the contraction."""
    moved = [materialize(x, d, axis_size) for x, d in zip(vals, dims, strict=True)]
    contracting, batch = (
        tuple(tuple(d + 1 for d in axes) for axes in pair) for pair in dimension_numbers
    )
    numbers = (contracting, tuple((0, *axes) for axes in batch))
    return lax.scaled_dot(*moved, dimension_numbers=numbers, **params), 0


# Columns that are the same for both products.
_SCALED = {
    "jvp": unsupported("JAX has none either"),
    "transpose": unsupported("JAX has none either"),
    "cost": AS_LOWERED,
    "varying": "untracked",
    "determined": undetermined,  # a compiler may leave out the rounding of the scaled operands
}

define(
    lax.scaled_dot,
    abstract_eval=_type,
    **decomposed(_scaled_dot),
    **_SCALED,
    batch=_batch,
)


_ROWS = (((2,), (2,)), ((0,), (0,)))  # dimension_numbers of `scaled_matmul_wrapper`


def _type_of_rows(
    lhs: Aval, rhs: Aval, lhs_scale: Aval, rhs_scale: Aval, *, preferred_element_type: DType
) -> list[Aval]:
    name = "scaled_matmul_wrapper"
    _check_operands(name, lhs, rhs, lhs_scale, rhs_scale)
    if lhs.ndim != 3:
        ill_typed(f"{name} takes operands of rank 3, not {lhs}")
    numbers = {"dimension_numbers": _ROWS, "precision": None, "out_sharding": None}
    wide = [a.update(dtype=preferred_element_type, weak_type=False) for a in (lhs, rhs)]
    params = {**numbers, "preferred_element_type": preferred_element_type}
    out = abstract_eval(lax.dot_general.primitive, wide, params)
    _check_scale(name, "lhs", lhs, lhs_scale, (2,))
    _check_scale(name, "rhs", rhs, rhs_scale, (2,))
    return out


def _product_of_rows(
    _avals: Sequence[Aval],
    lhs: Value,
    rhs: Value,
    lhs_scale: Value,
    rhs_scale: Value,
    *,
    preferred_element_type: DType,
) -> list[Value]:
    left, right = (
        _scaled(x, scale, (2,), preferred_element_type)
        for x, scale in ((lhs, lhs_scale), (rhs, rhs_scale))
    )
    wanted = {"dimension_numbers": _ROWS, "preferred_element_type": preferred_element_type}
    return [lax.dot_general(left, right, **wanted)]


def _batch_of_rows(
    axis_size: int, vals: Any, dims: Any, **params: ParamValue
) -> tuple[list[Value], list[int]]:
    """The batch rule: the batch axis of all operands is merged into the first axis."""
    moved = [materialize(x, d, axis_size) for x, d in zip(vals, dims, strict=True)]
    shapes = [get_aval(x).shape for x in moved]
    flat = [
        lax.reshape(x, new_sizes=(n * b, *rest))
        for x, (n, b, *rest) in zip(moved, shapes, strict=True)
    ]
    (out,) = lax.scaled_matmul_wrapper(*flat, **params)
    batch = (axis_size, shapes[0][1])
    return [lax.reshape(out, new_sizes=(*batch, *get_aval(out).shape[1:]))], [0]


define(
    lax.scaled_matmul_wrapper,
    abstract_eval=_type_of_rows,
    **decomposed(_product_of_rows),
    **_SCALED,
    batch=_batch_of_rows,
)
