"""Rows of vector operations that only occur in kernels; each is expressed by other primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import elementwise_batch, one_by_one
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import full
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.rules.define import define

__all__: list[str] = []

_NO_DERIVATIVE = unsupported("JAX has no derivative of it either")


def _check_axis(name: str, param: str, axis: int, x: Aval) -> None:
    if not 0 <= axis < x.ndim:
        ill_typed(f"{name} {param} {axis} is out of range for {x}", "axis-range")


def _further(op: Any, keys: Sequence[str]) -> Callable[..., OutAndDim]:
    """Return the batch rule of an operation with axes in its params `keys`.

    If an operand other than the first is batched, the operation runs once for each example.
    """

    def rule(axis_size: int, vals: Any, dims: Any, **params: Any) -> OutAndDim:
        if any(d is not None for d in dims[1:]):
            return one_by_one(op.primitive, vals, dims, axis_size, params)
        at = dims[0]
        moved = {k: a if (a := params[k]) is None else a + (at <= a) for k in keys}
        return op(*vals, **{**params, **moved}), at

    return rule


# -- roll --------------------------------------------------------------------------------------


def _roll_type(
    x: Aval, shift: Aval, *, axis: int, stride: int | None, stride_axis: int | None
) -> Aval:
    _check_axis("roll", "axis", axis, x)
    if not isinstance(shift, ShapedArray) or shift.shape or not shift.dtype.is_integer:
        ill_typed(f"roll is by an integer, and not by {shift}", "operand-types")
    if (stride is None) != (stride_axis is None):
        ill_typed("roll: stride and stride_axis are given together", "param-value")
    if stride_axis is not None:
        _check_axis("roll", "stride_axis", stride_axis, x)
        if stride_axis == axis:
            ill_typed(f"roll: axis and stride_axis both are {axis}", "param-value")
    return x


def _turned(x: Value, shift: Value, axis: int) -> Value:
    """Rotate x by a number of elements, which may be negative: slice x concatenated with itself."""
    shape, dtype = get_aval(x).shape, get_aval(shift).dtype
    n = shape[axis]
    if not n:
        return x
    size = scalar_lit(n, dtype)
    by = lax.rem(lax.add(lax.rem(shift, size), size), size)
    starts = [scalar_lit(0, dtype)] * len(shape)
    starts[axis] = lax.sub(size, by)
    return lax.dynamic_slice(lax.concatenate(x, x, dimension=axis), *starts, slice_sizes=shape)


def _roll(
    in_avals: Any,
    x: Value,
    shift: Value,
    *,
    axis: int,
    stride: int | None,
    stride_axis: int | None,
) -> Value:
    shape, dtype = get_aval(x).shape, get_aval(shift).dtype
    if stride is None or stride_axis is None or not shape[stride_axis]:
        return _turned(x, shift, axis)
    parts = []
    for i in range(shape[stride_axis]):
        low, high = [0] * len(shape), list(shape)
        low[stride_axis], high[stride_axis] = i, i + 1
        part = lax.slice(x, start_indices=tuple(low), limit_indices=tuple(high), strides=None)
        parts.append(_turned(part, lax.add(shift, scalar_lit(i * stride, dtype)), axis))
    return lax.concatenate(*parts, dimension=stride_axis)


define(
    lax.roll,
    abstract_eval=_roll_type,
    **decomposed(_roll),
    jvp=_NO_DERIVATIVE,
    transpose=_NO_DERIVATIVE,
    batch=_further(lax.roll, ("axis", "stride_axis")),
    cost=AS_LOWERED,
)


# -- repeat ------------------------------------------------------------------------------------


def _repeat_type(x: Aval, *, axis: int, repeats: int) -> Aval:
    _check_axis("repeat", "axis", axis, x)
    if repeats < 0:
        ill_typed(f"repeat: repeats={repeats} is negative", "param-value")
    shape = list(x.shape)
    shape[axis] *= repeats
    return x.update(shape=tuple(shape), weak_type=False)


def _repeat(in_avals: Any, x: Value, *, axis: int, repeats: int) -> Value:
    if not repeats:
        return full(_repeat_type(get_aval(x), axis=axis, repeats=0), 0)
    return lax.concatenate(*[x] * repeats, dimension=axis)


define(
    lax.repeat,
    abstract_eval=_repeat_type,
    **decomposed(_repeat),
    jvp=_NO_DERIVATIVE,
    transpose=_NO_DERIVATIVE,
    batch=_further(lax.repeat, ("axis",)),
    cost=AS_LOWERED,
)


# -- reciprocal, max_contiguous ----------------------------------------------------------------


def _reciprocal_type(x: Aval, **_: Any) -> Aval:
    if not x.dtype.is_inexact:
        ill_typed(f"reciprocal is of floating-point numbers, and not of {x}", "operand-dtype")
    return x


def _reciprocal(in_avals: Any, x: Value, **_: Any) -> Value:
    return lax.div(full(get_aval(x).strong, 1), x)


define(
    lax.reciprocal,
    abstract_eval=_reciprocal_type,
    **decomposed(_reciprocal),
    jvp=_NO_DERIVATIVE,
    transpose=_NO_DERIVATIVE,
    batch=elementwise_batch,
    cost=AS_LOWERED,
    masks="inf",
)

define(
    lax.max_contiguous,
    abstract_eval=lambda x, *, values: x,
    impl=lambda xp, x, *, values: x,
    jvp=_NO_DERIVATIVE,
    transpose=_NO_DERIVATIVE,
    batch=elementwise_batch,
    lower=lambda ctx, x, *, values: x,
    cost=FREE,
    elements="kept",
)
