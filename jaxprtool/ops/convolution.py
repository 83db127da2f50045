"""Convolution of any rank."""

from jaxprtool.core.kinds.dimension_numbers import ConvNumbers
from jaxprtool.core.kinds.enums import Precision
from jaxprtool.core.kinds.numbers import Padding, Strides
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.dtypes import DType

__all__ = ["conv_general_dilated"]

Ints = tuple[int, ...]


@primitive
def conv_general_dilated(
    lhs,
    rhs,
    *,
    window_strides: Strides,
    padding: Padding,
    lhs_dilation: Strides,
    rhs_dilation: Strides,
    dimension_numbers: ConvNumbers,
    feature_group_count: int = shown(1),
    batch_group_count: int = shown(1),
    precision: Precision | None = shown(None),
    preferred_element_type: DType | None = shown(None),
    out_sharding: Sharding | None = shown(None),
):
    """out[n, o, x] = sum over i, k of lhs[n, i, x * stride + k * rhs_dilation - low] * rhs[o, i, k].

    First, lhs_dilation - 1 zeros are put between neighbouring elements of lhs. Elements out of
    bounds are zeros. The kernel rhs is not flipped.

    window_strides: the step from one window to the next along each spatial axis.
    padding: (low, high) for each spatial axis; negative numbers remove elements.
    lhs_dilation: the distance of neighbouring elements of lhs along each spatial axis.
    rhs_dilation: the distance of neighbouring elements of rhs along each spatial axis.
    dimension_numbers: lhs_spec: axes n, i, x of lhs; rhs_spec: o, i, k of rhs; out_spec: n, o, x.
    feature_group_count: the number of groups of input and output features, convolved separately.
    batch_group_count: the number of groups of batch and output features, convolved separately.
    precision: how precise products must be on hardware with low-precision multipliers, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    out_sharding: the sharding of the result, or None.
    """
