"""Conversion between element types."""

from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import param, primitive, shown
from jaxprtool.ir.dtypes import DType

__all__ = ["convert_element_type"]


@primitive
def convert_element_type(
    operand,
    *,
    new_dtype: DType,
    weak_type: bool = shown(False),
    sharding: Sharding | None = param(None, hidden="always"),
):
    """operand in another element type; floats to integers truncate towards zero and saturate.

    new_dtype: the element type of the result.
    weak_type: whether the result counts as a bare Python scalar in promotion.
    sharding: the sharding of the result, or None.
    """
