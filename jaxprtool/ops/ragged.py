"""`ragged_dot_general`: matrix products of groups of rows of different sizes."""

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
    """`dot_general` by groups: group i is group_sizes[i] consecutive slices along the ragged axis
    of lhs.

    If the ragged axis is neither contracting nor batch, lhs [m, k], rhs [g, k, n]:
      out[r, :] = lhs[r, :] @ rhs[i, :, :] for each row r of group i; rows in no group give zeros.
    If it is contracting, lhs [m, k], rhs [k, n]:
      out[i, :, :] = lhs[:, K] @ rhs[K, :] of shape [g, m, n], where K are the indices of group i.
    If it is a batch axis, the result is that of `dot_general`.
    group_sizes has the shape [g], or [..., g] with the other batch or free axes of lhs first.

    ragged_dot_dimension_numbers: the axes of the contraction, the ragged axis, the axis of groups.
      They are the fields dot_dimension_numbers (as for `dot_general`), lhs_ragged_dimensions (one
      axis) and rhs_group_dimensions (the axis g of rhs in the first case, otherwise none).
    precision: how precise products must be on hardware with low-precision multipliers, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    group_offset: the first group; JAX takes None only.
    out_sharding: the sharding of the result, or None.
    """
