"""Operations that join arrays, repeat them and cut them apart."""

from jaxprtool.core.kinds.numbers import Axis, PaddingConfig, Shape
from jaxprtool.core.primitive import primitive

__all__ = ["concatenate", "split", "stack", "unstack", "pad", "tile"]


@primitive
def concatenate(*operands, dimension: Axis):
    """The operands one after the other along an axis.

    dimension: the axis.
    """


@primitive
def pad(operand, padding_value, *, padding_config: PaddingConfig):
    """operand with `padding_value` around and between its elements.

    padding_config: (low, high, interior) for each axis; negative low and high cut elements off.
    """


@primitive
def stack(*operands, axis: Axis):
    """The operands side by side along a new axis.

    axis: the position of the new axis in the result.
    """


@primitive(multiple_results=True)
def unstack(operand, *, axis: Axis):
    """The slices of operand along an axis, without that axis.

    axis: the axis to take apart.
    """


@primitive(multiple_results=True)
def split(operand, *, sizes: Shape, axis: Axis):
    """operand in pieces, one after the other along an axis.

    sizes: the size of each piece along the axis.
    axis: the axis to cut.
    """


@primitive
def tile(operand, *, reps: tuple[int, ...]):
    """Copies of operand side by side.

    reps: how many along each axis.
    """
