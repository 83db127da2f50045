"""Slices of an array at positions that are values."""

from collections.abc import Sequence

from jaxprtool.core.kinds.dimension_numbers import GatherNumbers
from jaxprtool.core.kinds.enums import IndexMode
from jaxprtool.core.kinds.numbers import Scalar, Shape
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.params import Record, Word

__all__ = ["GatherDimensionNumbers", "gather"]

_IN_BOUNDS = Word("GatherScatterMode.PROMISE_IN_BOUNDS")


def GatherDimensionNumbers(
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    start_indices_batching_dims: Sequence[int] = (),
) -> Record:
    """The dimension numbers of a gather; see there."""
    return Record(
        "GatherDimensionNumbers",
        (),
        offset_dims=tuple(offset_dims),
        collapsed_slice_dims=tuple(collapsed_slice_dims),
        start_index_map=tuple(start_index_map),
        operand_batching_dims=tuple(operand_batching_dims),
        start_indices_batching_dims=tuple(start_indices_batching_dims),
    )


@primitive
def gather(
    operand,
    start_indices,
    *,
    dimension_numbers: GatherNumbers,
    slice_sizes: Shape,
    mode: IndexMode = shown(_IN_BOUNDS),
    fill_value: Scalar | None = shown(None),
    unique_indices: bool = shown(False),
    indices_are_sorted: bool = shown(False),
):
    """For each vector of start_indices (along its last axis) the slice of operand that starts there.

    dimension_numbers: `GatherDimensionNumbers`. start_index_map: the operand's axes that the components of a vector
      are for. collapsed_slice_dims: the axes of a slice, of size 1, that the result lacks. offset_dims: the
      result's axes along which the others lie. operand_batching_dims, start_indices_batching_dims: axes that
      operand and start_indices have in common.
    slice_sizes: the size of a slice along each axis of operand.
    mode: `GatherScatterMode.CLIP`: starts are moved so that the slice lies within operand; `FILL_OR_DROP`:
      slices that do not are filled; `PROMISE_IN_BOUNDS`: there are none such.
    fill_value: what fills; by default NaN, the smallest or largest integer, or True.
    unique_indices: a promise that no element is selected twice.
    indices_are_sorted: a promise that the vectors are in ascending order.
    """
