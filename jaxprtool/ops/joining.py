"""Operations that concatenate, stack, pad, repeat and split arrays."""

from jaxprtool.core.kinds.numbers import Axis, PaddingConfig, Shape
from jaxprtool.core.primitive import primitive

__all__ = ["concatenate", "split", "stack", "unstack", "pad", "tile"]


@primitive
def concatenate(*operands, dimension: Axis):
    """The operands one after the other along an axis; their other axes have the same sizes.

    dimension: the axis.
    """


@primitive
def pad(operand, padding_value, *, padding_config: PaddingConfig):
    """operand with `padding_value` before, after and between its elements along each axis.

    padding_config: (low, high, interior) for each axis: how many values before, after and between.
      Negative low and high remove elements.
    """


@primitive
def stack(*operands, axis: Axis):
    """out[..., i, ...] = operands[i][...], with i along a new axis.

    axis: the position of the new axis in the result.
    """


@primitive(multiple_results=True)
def unstack(operand, *, axis: Axis):
    """outs[i] = operand[..., i, ...] for each i along an axis, which the results lack.

    axis: the axis.
    """


@primitive(multiple_results=True)
def split(operand, *, sizes: Shape, axis: Axis):
    """operand cut along an axis into pieces, one after the other: the inverse of `concatenate`.

    sizes: the size of each piece along the axis.
    axis: the axis.
    """


@primitive
def tile(operand, *, reps: tuple[int, ...]):
    """out[i] = operand[i mod operand.shape]: copies of operand one after the other along each axis.

    reps: the number of copies along each axis.
    """
