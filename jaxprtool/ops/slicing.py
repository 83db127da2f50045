"""Slices whose starts are params (static) or operands (dynamic)."""

from jaxprtool.core.kinds.numbers import Indices, Shape, Strides
from jaxprtool.core.primitive import Index, primitive, shown

__all__ = ["slice", "dynamic_slice", "dynamic_update_slice"]


@primitive
def slice(
    operand,
    *,
    start_indices: Indices,
    limit_indices: Indices,
    strides: Strides | None = shown(None),
):
    """out[i] = operand[start_indices + i * strides].

    start_indices: the start along each axis.
    limit_indices: the end along each axis, which is excluded.
    strides: the step along each axis, or None for 1 along all of them.
    """


@primitive
def dynamic_slice(operand, *start_indices: Index, slice_sizes: Shape):
    """out[i] = operand[start_indices + i], with starts clamped so that the slice lies within
    operand.

    slice_sizes: the shape of the result.
    """


@primitive
def dynamic_update_slice(operand, update, *start_indices: Index):
    """operand, where out[start_indices + i] = update[i], with starts clamped so that update lies
    within.
    """
