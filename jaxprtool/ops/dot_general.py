"""The general contraction of two arrays."""

from jaxprtool.core.kinds.dimension_numbers import DotNumbers
from jaxprtool.core.kinds.enums import Precision
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import param, primitive
from jaxprtool.ir.dtypes import DType

__all__ = ["dot_general"]


@primitive
def dot_general(
    lhs,
    rhs,
    *,
    dimension_numbers: DotNumbers,
    precision: Precision | None = None,
    preferred_element_type: DType | None = None,
    out_sharding: Sharding | None = param(None, hidden="always"),
):
    """out[b, i, j] = sum over c of lhs[b, i, c] * rhs[b, j, c], for any position of the axes.

    b, c, i and j stand for any number of axes: the batch axes, the contracting axes, and the other
    axes of lhs and of rhs.

    dimension_numbers: the axes ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
    precision: how precise products must be on hardware with low-precision multipliers, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    out_sharding: the sharding of the result, or None.
    """
