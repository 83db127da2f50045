"""Splitting floating-point numbers into mantissa and exponent, and the inverse."""

from jaxprtool.core.kinds.objects import OperandType
from jaxprtool.core.primitive import param, primitive

__all__ = ["frexp", "ldexp"]


@primitive(name="Ldexp")
def ldexp(
    x1, x2, *, x1_aval: OperandType = param(first=True), x2_aval: OperandType = param(first=True)
):
    """x1 * 2^x2, elementwise; subnormal elements of x1 and of the result are replaced by zeros.

    x1_aval: the type of x1.
    x2_aval: the type of x2, integers.
    """


@primitive(name="Frexp", multiple_results=True)
def frexp(x, *, x_aval: OperandType = param(first=True)):
    """(m, e) with x = m * 2^e and 0.5 <= |m| < 1, elementwise; (x, 0) for zeros, infinities and
    NaN.

    Subnormal elements of x are replaced by zeros.

    x_aval: the type of x.
    """
