"""Rounding to fewer bits in the same element type."""

from jaxprtool.core.primitive import primitive

__all__ = ["reduce_precision"]


@primitive
def reduce_precision(operand, *, exponent_bits: int, mantissa_bits: int):
    """operand rounded to a floating-point format with fewer bits, elementwise; the type does not
    change.

    Ties are rounded to even mantissas; values too large for the format become infinities, and
    values too small for its normal numbers become zeros.

    exponent_bits: the number of bits of the exponent, at least 1.
    mantissa_bits: the number of bits of the mantissa, without the implicit leading one.
    """
