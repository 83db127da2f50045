"""Conversion between element types."""

from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import Bookkeeping
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import param, primitive, shown, types_of_results
from jaxprtool.ir.dtypes import DType

__all__ = ["convert_element_type", "from_edtype", "to_edtype"]


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


@primitive
def to_edtype(
    operand,
    *,
    edtype: Bookkeeping,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """The array of elements of a library's own type that operand represents; its last axes are those of an element.

    edtype: that type.
    out_avals: the type of the result.
    """


@primitive
def from_edtype(
    operand,
    *,
    dtype: DType,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """What represents an array of elements of a library's own type; its last axes are those of an element.

    dtype: the element type of that.
    out_avals: the type of the result.
    """
