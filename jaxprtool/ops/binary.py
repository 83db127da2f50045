"""Elementwise functions of two operands.

Operands have one shape, or rank 0, which stands for every element.
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
    """x / y; integers truncate towards zero, and division by zero gives -1 (all ones), elementwise."""


@primitive(one_type=True)
def rem(x, y):
    """x - y * trunc(x / y): the remainder with the sign of x, elementwise."""


@primitive(one_type=True)
def max(x, y):
    """the larger of x and y; NaN if either is; complex numbers compare lexicographically, elementwise."""


@primitive(one_type=True)
def min(x, y):
    """the smaller of x and y; NaN if either is; complex numbers compare lexicographically, elementwise."""


@primitive
def pow(x, y):
    """x^y; y may be an integer where x is floating, elementwise."""


@primitive(one_type=True)
def atan2(x, y):
    """the angle of the point (y, x) in (-pi, pi], x the first operand over y the second, elementwise."""


@primitive
def add_any(x, y):
    """x + y of two cotangents of any one type, elementwise."""


@primitive(one_type=True)
def mul(x, y, *, out_dtype: DType | None = None):
    """x * y, elementwise.

    out_dtype: the element type of the result when it is not that of the operands.
    """


@primitive
def complex(x, y):
    """x + iy of two real operands."""
