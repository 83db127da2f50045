"""The row of `scaled_dot`, the contraction of arrays of narrow numbers with scales for blocks of them.

Open Compute Project: OCP Microscaling Formats (MX) Specification (2023) has such blocks; the product is in bf16.
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
from jaxprtool.rules.define import define

__all__: list[str] = []

Axes = Sequence[int]


def _check_scale(side: str, x: Aval, scale: Aval, contracting: Axes) -> None:
    """Raise a type error for a scale whose shape is not that of its operand with shorter contracting axes."""
    for axis, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if axis not in contracting and n != m:
            ill_typed(f"scaled_dot: axis {axis} of {side} has size {n}, and that of its scale {m}")
        if axis in contracting and (m == 0 or n % m or n < 2 * m):
            ill_typed(
                f"scaled_dot: axis {axis} of {side}, which is contracted, has size {n}, and it has to be "
                f"twice that of its scale, {m}, or a larger multiple"
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
    avals = (lhs, rhs, lhs_scale, rhs_scale)
    if len({a.ndim for a in avals}) > 1:
        ill_typed(f"scaled_dot takes operands of one rank, not {', '.join(map(str, avals))}")
    if any(a.dtype.kind not in "biufc" for a in avals):
        ill_typed(f"scaled_dot takes numbers, not {', '.join(map(str, avals))}")
    wanted = BFLOAT16 if preferred_element_type is None else dtype_of(preferred_element_type)
    numbers = {"dimension_numbers": dimension_numbers, "precision": None, "out_sharding": None}
    narrow = [a.update(dtype=BFLOAT16, weak_type=False) for a in (lhs, rhs)]
    params = {**numbers, "preferred_element_type": wanted}
    (out,) = abstract_eval(lax.dot_general.primitive, narrow, params)
    (left, right), _ = dimension_numbers
    _check_scale("lhs", lhs, lhs_scale, left)
    _check_scale("rhs", rhs, rhs_scale, right)
    return out


def _scaled(x: Value, scale: Value, contracting: Axes) -> Value:
    """The product in bf16, of complex numbers that of the real parts, each element of the scale repeated along the contracting axes."""
    shape, held = get_aval(x).shape, get_aval(scale).shape
    blocks: list[int] = []
    places: list[int] = []
    for axis, (n, m) in enumerate(zip(shape, held, strict=True)):
        places.append(len(blocks))
        blocks += [m, n // m] if axis in contracting else [m]
    wide = lax.broadcast_in_dim(scale, shape=tuple(blocks), broadcast_dimensions=tuple(places))
    wide = lax.reshape(wide, new_sizes=shape)
    as_bf16 = [v if get_aval(v).dtype is BFLOAT16 else _narrowed(v) for v in (x, wide)]
    return lax.mul(*as_bf16)


def _narrowed(x: Value) -> Value:
    return lax.convert_element_type(x, new_dtype=BFLOAT16)


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
    """The batch axis of all operands in front, as a further batch axis of the contraction."""
    moved = [materialize(x, d, axis_size) for x, d in zip(vals, dims, strict=True)]
    contracting, batch = (
        tuple(tuple(d + 1 for d in axes) for axes in pair) for pair in dimension_numbers
    )
    numbers = (contracting, tuple((0, *axes) for axes in batch))
    return lax.scaled_dot(*moved, dimension_numbers=numbers, **params), 0


define(
    lax.scaled_dot,
    abstract_eval=_type,
    **decomposed(_scaled_dot),
    jvp=unsupported("JAX has none either"),
    transpose=unsupported("JAX has none either"),
    batch=_batch,
    cost=AS_LOWERED,
    varying="untracked",
    determined=undetermined,  # a compiler may leave out the rounding of the scaled operands to bf16
)
