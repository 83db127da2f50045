"""Polynomials."""

from jaxprtool.core.primitive import primitive

__all__ = ["polynomial"]


@primitive
def polynomial(x, *coefficients, unroll: int | None = None):
    """coefficients[0] + coefficients[1] * x + coefficients[2] * x^2 + ..., elementwise.

    Operands are of one shape, or scalars; a size of 1 stretches.

    unroll: of how many terms JAX writes no loop; None for 8.
    """
