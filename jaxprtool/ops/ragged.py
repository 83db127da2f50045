"""Contractions of an array whose rows fall into groups of different sizes."""

from jaxprtool.core.kinds.dimension_numbers import RaggedDotNumbers
from jaxprtool.core.kinds.enums import Precision
from jaxprtool.core.kinds.numbers import ElementTypeOrClass
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import primitive, shown

__all__ = ["ragged_dot_general"]


@primitive
def ragged_dot_general(
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers: RaggedDotNumbers,
    precision: Precision | None = shown(None),
    preferred_element_type: ElementTypeOrClass | None = shown(None),
    group_offset: int | None = shown(None),
    out_sharding: Sharding | None = shown(None),
):
    """The contraction of lhs and rhs by groups, which are runs along the ragged axis of lhs, `group_sizes` long.

    Where the ragged axis is a free one, [m, k] [g, k, n] -> [m, n], each row is multiplied with its group's rhs, and rows
    in no group give zeros. Where it is contracted, [m, k] [k, n] -> [g, m, n], each group is summed on its own. Where it
    is a batch axis, the groups make no difference. group_sizes is [g], or has the axes of lhs outside of the ragged one in
    front.

    ragged_dot_dimension_numbers: dot_dimension_numbers (as of dot_general), lhs_ragged_dimensions (one axis), and
      rhs_group_dimensions (the axis of groups for a free ragged axis, else none).
    precision: how exact the multiplication of low-precision hardware has to be, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    group_offset: the first group, of which JAX has None only.
    out_sharding: the sharding of the result, or None.
    """
