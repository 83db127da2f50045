"""The LU decomposition with partial pivoting."""

from jaxprtool.core.kinds.numbers import Size
from jaxprtool.core.primitive import primitive

__all__ = ["lu", "lu_pivots_to_permutation"]


@primitive(multiple_results=True)
def lu(a):
    """(LU, pivots, permutation) with L U = a[permutation, :], L lower and U upper triangular.

    LU holds U in its upper triangle, and L, whose diagonal is all ones, below the diagonal. Step i
    of the decomposition swaps the rows i and pivots[i]; permutation is the product of all swaps.
    pivots and permutation are i32.
    """


@primitive
def lu_pivots_to_permutation(pivots, *, permutation_size: Size):
    """p = [0, 1, 2, ...]; for i = 0, 1, ...: swap p[i] and p[pivots[i]]; the result is p, i32.

    permutation_size: the number of elements of p, at least that of pivots.
    """
