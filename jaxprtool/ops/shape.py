"""Operations that rearrange elements: broadcasting, reshaping, transposing; and sizes of axes."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.kinds.numbers import Axes, Axis, Dimension, Permutation, Shape
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import dtype_of_result, param, primitive, shown
from jaxprtool.ir.declaration import REQUIRED
from jaxprtool.ir.dtypes import INT32, DType

__all__ = [
    "broadcast_in_dim",
    "reshape",
    "squeeze",
    "expand_dims",
    "transpose",
    "rev",
    "iota",
    "dim_as_value",
    "dimension_size",
]


def _shape_of_result(value: Any, out_avals: Sequence[Any]) -> Any:
    """Return the param shape, or if the text lacks it, the shape of the result."""
    lacks = value is REQUIRED and len(out_avals) == 1
    return getattr(out_avals[0], "shape", ()) if lacks else value


@primitive
def broadcast_in_dim(
    operand,
    *,
    shape: Shape = param(hidden="implied", recover=_shape_of_result),
    broadcast_dimensions: Axes = (),
    sharding: Sharding | None = param(None, hidden="always"),
):
    """out[i] = operand[i[broadcast_dimensions]], with index 0 along axes of operand of size 1.

    shape: the shape of the result.
    broadcast_dimensions: for each axis of operand, the axis of the result that it is; ascending.
    sharding: the sharding of the result, or None.
    """


@primitive
def reshape(
    operand,
    *,
    new_sizes: Shape,
    dimensions: Permutation | None = shown(None),
    sharding: Sharding | None = shown(None),
):
    """The elements of operand in row-major order, in an array of another shape.

    new_sizes: the shape of the result.
    dimensions: a permutation of the axes of operand that is applied first, or None.
    sharding: the sharding of the result, or None.
    """


@primitive
def squeeze(array, *, dimensions: Axes):
    """array without some axes of size 1.

    dimensions: the axes to remove.
    """


@primitive
def expand_dims(array, *, dimensions: Axes):
    """array with new axes of size 1.

    dimensions: the positions of the new axes in the result.
    """


@primitive
def transpose(operand, *, permutation: Permutation):
    """out[i] = operand[j] with i[k] = j[permutation[k]].

    permutation: for each axis of the result, the axis of operand that it comes from.
    """


@primitive
def rev(operand, *, dimensions: Axes):
    """operand with the order of its elements reversed along some axes.

    dimensions: the axes to reverse.
    """


@primitive
def iota(*, dtype: DType, shape: Shape, dimension: Axis, sharding: Sharding | None = shown(None)):
    """out[i] = i[dimension]: 0, 1, 2, ... along an axis.

    dtype: the element type of the result.
    shape: the shape of the result.
    dimension: the axis along which the numbers count.
    sharding: the sharding of the result, or None.
    """


@primitive
def dim_as_value(
    *, dim: Dimension, dtype: DType = param(INT32, hidden="implied", recover=dtype_of_result)
):
    """dim, the size of an axis, as an integer scalar.

    dim: the size; in programs with symbolic sizes an expression of the sizes of the arguments.
    dtype: the element type of the result.
    """


@primitive
def dimension_size(
    operand,
    *,
    dimension: Axis,
    dtype: DType = param(INT32, hidden="implied", recover=dtype_of_result),
):
    """operand.shape[dimension], as an integer scalar.

    JAX writes it when it exports a program with symbolic sizes.

    dimension: the axis.
    dtype: the element type of the result.
    """
