"""Elementwise functions of two operands.

The operands have the same shape, or one of them is a scalar, which is broadcast.
"""

from jaxprtool.core.primitive import primitive
from jaxprtool.ir.dtypes import DType

__all__ = ["add", "sub", "div", "rem", "max", "min", "pow", "atan2", "add_any", "mul", "complex"]


@primitive(one_type=True)
def add(x, y):
    """x + y, elementwise."""


@primitive(one_type=True)
def sub(x, y):
    """x - y, elementwise."""


@primitive(one_type=True)
def div(x, y):
    """x / y, elementwise; of integers trunc(x / y), and with y = 0 the number whose bits are all
    1.
    """


@primitive(one_type=True)
def rem(x, y):
    """x - y * trunc(x / y), elementwise: the remainder, with the sign of x."""


@primitive(one_type=True)
def max(x, y):
    """max(x, y), elementwise; NaN where x or y is NaN.

    Complex numbers are compared by their real parts, and where these are equal by the imaginary
    parts.
    """


@primitive(one_type=True)
def min(x, y):
    """min(x, y), elementwise; NaN where x or y is NaN.

    Complex numbers are compared by their real parts, and where these are equal by the imaginary
    parts.
    """


@primitive
def pow(x, y):
    """x^y, elementwise; y may be an integer array where x is a floating-point one."""


@primitive(one_type=True)
def atan2(x, y):
    """atan2(x, y), elementwise: the angle in (-pi, pi] of the point with abscissa y and ordinate x.

    For y > 0 this is arctan(x / y).
    """


@primitive
def add_any(x, y):
    """x + y, elementwise, where x and y are cotangents of one type, which need not be an array."""


@primitive(one_type=True)
def mul(x, y, *, out_dtype: DType | None = None):
    """x * y, elementwise.

    out_dtype: the element type of the result; None for that of the operands.
    """


@primitive
def complex(x, y):
    """x + iy, elementwise, for real x and y."""
