"""Operations on the bits of numbers."""

from jaxprtool.core.primitive import primitive
from jaxprtool.ir.dtypes import DType

__all__ = ["bitcast_convert_type", "clz", "mulhi", "nextafter", "population_count"]


@primitive
def bitcast_convert_type(operand, *, new_dtype: DType):
    """The bits of operand, read as elements of another type.

    A narrower type adds a last axis: the pieces of each element, lowest bits first. A wider type
    removes the last axis, whose elements together hold the bits of one element of the result.

    new_dtype: the element type of the result.
    """


@primitive
def nextafter(x, y):
    """The representable number next to x in the direction of y, elementwise; y where they are
    equal.
    """


@primitive
def population_count(x):
    """The number of bits of x that are 1, elementwise."""


@primitive
def clz(x):
    """The number of leading zero bits of x, elementwise; for x = 0 the number of bits of its
    type.
    """


@primitive
def mulhi(x, y):
    """floor(x * y / 2^w), elementwise, for integers of w bits: the upper half of the exact
    product.
    """
