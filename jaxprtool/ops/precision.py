"""Rounding to fewer bits in the same element type."""

from jaxprtool.core.primitive import primitive

__all__ = ["reduce_precision"]


@primitive
def reduce_precision(operand, *, exponent_bits: int, mantissa_bits: int):
    """operand as a floating type of fewer bits would hold it: halves to even, too large to infinity, too small to zero.

    exponent_bits: the bits of that type's exponent, at least 1.
    mantissa_bits: the bits of its mantissa, without the leading one.
    """
