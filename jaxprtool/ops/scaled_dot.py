"""Contractions of arrays of narrow elements (8 bits or fewer) that are scaled block by block."""

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
    """dot_general(lhs * lhs_scale, rhs * rhs_scale), where the two products are computed in bf16.

    Along a contracting axis of size n the scale has size n / b: each element scales a block of b
    consecutive elements. Along other axes the sizes are equal.

    dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)) axes.
    preferred_element_type: the element type of the result, or None for bf16.
    """


@primitive(multiple_results=True)
def scaled_matmul_wrapper(lhs, rhs, lhs_scale, rhs_scale, *, preferred_element_type: DType):
    """out[i, m, n] = sum over k of (lhs * lhs_scale)[i, m, k] * (rhs * rhs_scale)[i, n, k].

    Along the last axis of size k the scale has size k / b: each element scales a block of b
    consecutive elements. Along other axes the sizes are equal.

    preferred_element_type: the element type of the result and of all products.
    """
