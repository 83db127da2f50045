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
    """operand converted to another element type, elementwise.

    Floats become integers by truncation towards zero; values out of range become the nearest
    integer in range.

    new_dtype: the element type of the result.
    weak_type: whether the result has a weak type, as a Python scalar has it.
    sharding: the sharding of the result, or None.
    """


@primitive
def to_edtype(
    operand,
    *,
    edtype: Bookkeeping,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """The array with an extended element type whose representation is operand.

    An extended element type is one that a library declares; the last axes of operand represent one
    element.

    edtype: the extended element type of the result.
    out_avals: the type of the result.
    """


@primitive
def from_edtype(
    operand,
    *,
    dtype: DType,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """The representation of operand, an array with an extended element type: the inverse of
    `to_edtype`.

    An extended element type is one that a library declares; the last axes of the result represent
    one element.

    dtype: the element type of the result.
    out_avals: the type of the result.
    """
