"""Systems of equations with a triangular matrix."""

from jaxprtool.core.primitive import primitive, shown

__all__ = ["triangular_solve"]


@primitive
def triangular_solve(
    a,
    b,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool = shown(False),
    conjugate_a: bool = shown(False),
    unit_diagonal: bool = shown(False),
):
    """x with op(a) x = b, or x op(a) = b, for a triangular matrix a.

    left_side: whether op(a) stands to the left of x.
    lower: whether a is lower triangular; its other triangle is not read.
    transpose_a: whether op transposes.
    conjugate_a: whether op conjugates.
    unit_diagonal: whether the diagonal is taken to be ones, and is not read.
    """
