"""The LU decomposition with partial pivoting."""

from jaxprtool.core.kinds.numbers import Size
from jaxprtool.core.primitive import primitive

__all__ = ["lu", "lu_pivots_to_permutation"]


@primitive(multiple_results=True)
def lu(a):
    """(LU, pivots, permutation) with L U = a[permutation], a of shape m x n.

    L, with ones on its diagonal, is below the diagonal of LU, and U is the rest. Step i of the
    decomposition swaps rows i and pivots[i]; permutation is what all swaps come to. Both are i32.
    """


@primitive
def lu_pivots_to_permutation(pivots, *, permutation_size: Size):
    """0, 1, 2, ... with elements i and pivots[i] swapped, for each i in turn.

    permutation_size: the number of elements, at least that of pivots.
    """
