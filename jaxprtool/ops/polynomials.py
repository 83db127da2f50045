"""Polynomials."""

from jaxprtool.core.primitive import primitive

__all__ = ["polynomial"]


@primitive
def polynomial(x, *coefficients, unroll: int | None = None):
    """coefficients[0] + coefficients[1] * x + coefficients[2] * x^2 + ..., elementwise.

    The operands are scalars or have one shape; axes of size 1 are broadcast.

    unroll: the largest number of coefficients for which JAX writes no loop; None: 8.
    """
