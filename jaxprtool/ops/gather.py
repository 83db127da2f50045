"""`gather`: slices of an array at positions that are operands."""

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
    """Return the value of the param `dimension_numbers` of `gather`, whose docstring explains the
    fields.
    """
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
    """out[b, o] = operand[start(b) + o]: for each vector start_indices[b, :], the slice that starts
    there.

    The fields of dimension_numbers say which axes these are:
      start_index_map: component k of the vector is the start along axis start_index_map[k] of
        operand; the start along all other axes is 0.
      offset_dims: the axes o of the result, along which the slices lie; the other axes are b.
      collapsed_slice_dims: the axes of the slices that the result lacks; they have size 1.
      operand_batching_dims, start_indices_batching_dims: pairs of axes of operand and start_indices
        with the same position: slice b is taken from operand at that position.

    dimension_numbers: a `GatherDimensionNumbers`.
    slice_sizes: the size of a slice along each axis of operand.
    mode: what happens to slices that do not lie within operand.
      `GatherScatterMode.CLIP` moves them until they do, `FILL_OR_DROP` fills them with fill_value,
      `PROMISE_IN_BOUNDS` is a promise that there are none.
    fill_value: what FILL_OR_DROP fills in; None: NaN, the least (unsigned: largest) integer, True.
    unique_indices: a promise that no element of operand is selected twice.
    indices_are_sorted: a promise that the vectors are in ascending order.
    """
