"""Operations on the bits of numbers."""

from jaxprtool.core.primitive import primitive
from jaxprtool.ir.dtypes import DType

__all__ = ["bitcast_convert_type", "clz", "mulhi", "nextafter", "population_count"]


@primitive
def bitcast_convert_type(operand, *, new_dtype: DType):
    """The bits of operand as another element type.

    To a narrower type they get a last axis, of the parts from the low bits up; to a wider type the
    last axis, which has to hold one element's bits, goes away.

    new_dtype: the element type of the result.
    """


@primitive
def nextafter(x, y):
    """The next representable number after x in the direction of y, elementwise."""


@primitive
def population_count(x):
    """The number of bits of x that are set, elementwise."""


@primitive
def clz(x):
    """The number of zeros before the highest bit of x that is set, elementwise; the width for 0."""


@primitive
def mulhi(x, y):
    """The high half of the product of twice the width, elementwise."""
