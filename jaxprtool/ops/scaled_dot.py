"""The contraction of arrays of narrow numbers with scales."""

from jaxprtool.core.kinds.dimension_numbers import PlainDotNumbers
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.dtypes import DType

__all__ = ["scaled_dot", "scaled_matmul_wrapper"]


@primitive
def scaled_dot(
    lhs,
    rhs,
    lhs_scale,
    rhs_scale,
    *,
    dimension_numbers: PlainDotNumbers,
    preferred_element_type: DType | None = shown(None),
):
    """The contraction of lhs * lhs_scale and rhs * rhs_scale, which are computed in bf16.

    An element of a scale is for as many elements of each contracting axis as this has more of them; the other axes are alike.

    dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)) axes.
    preferred_element_type: the element type of the result, or None for bf16.
    """


@primitive(multiple_results=True)
def scaled_matmul_wrapper(lhs, rhs, lhs_scale, rhs_scale, *, preferred_element_type: DType):
    """The products, for each place of the first axis, of the rows of lhs * lhs_scale and those of rhs * rhs_scale.

    An element of a scale is for as many elements of the last axis as this has more of them; the other axes are alike.

    preferred_element_type: the element type of the result, in which it is computed.
    """
