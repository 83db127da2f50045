"""Slices with static and with dynamic starts."""

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

    start_indices: the first index of each axis.
    limit_indices: the index after the last of each axis.
    strides: the step of each axis, or None for 1 everywhere.
    """


@primitive
def dynamic_slice(operand, *start_indices: Index, slice_sizes: Shape):
    """out[i] = operand[start + i], the starts clamped so that the slice lies within operand.

    slice_sizes: the shape of the result.
    """


@primitive
def dynamic_update_slice(operand, update, *start_indices: Index):
    """operand with update written at the starts, clamped so that it lies within operand."""
