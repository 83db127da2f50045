"""Linear systems with a triangular matrix."""

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
    """x with op(a) x = b or x op(a) = b, for a triangular matrix a.

    left_side: whether op(a) x = b is solved, rather than x op(a) = b.
    lower: whether a is lower triangular, rather than upper; its other triangle is not read.
    transpose_a: whether op(a) transposes a.
    conjugate_a: whether op(a) conjugates a.
    unit_diagonal: whether the diagonal of a counts as ones; then it is not read.
    """
