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

    lhs has lhs_dilation - 1 holes between its elements. The kernel is not flipped.

    window_strides: the steps between windows along each spatial axis.
    padding: (low, high) for each spatial axis; negative ones cut.
    lhs_dilation: how far apart the elements of lhs are put.
    rhs_dilation: how far apart the elements of rhs are put.
    dimension_numbers: lhs_spec (batch, feature, spatial axes), rhs_spec (output feature, input feature, spatial axes),
      out_spec (batch, feature, spatial axes).
    feature_group_count: the input and output features fall into this many groups, each convolved on its own.
    batch_group_count: the batch and the output features fall into this many groups, each convolved on its own.
    precision: how exact the multiplication of low-precision hardware has to be, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    out_sharding: the sharding of the result, or None.
    """
