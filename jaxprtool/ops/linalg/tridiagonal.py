"""Tridiagonal matrices: reduction of Hermitian matrices to them, and systems of equations."""

from jaxprtool.core.primitive import primitive, shown

__all__ = ["tridiagonal", "tridiagonal_solve"]


@primitive(multiple_results=True)
def tridiagonal(a, *, lower: bool):
    """(a', d, e, taus): the tridiagonal form T = Q^H a Q of a Hermitian matrix a.

    d is the diagonal of T and e the one beside it, both real. Q is a product of reflectors: their vectors are
    in the rest of the triangle of a' that was read, their factors in taus.

    lower: whether the lower triangle of a is read, or the upper one.
    """


@primitive
def tridiagonal_solve(dl, d, du, b, *, perturb_singular: bool = shown(False)):
    """x with T x = b, where T[i, i-1] = dl[i], T[i, i] = d[i] and T[i, i+1] = du[i].

    dl[0] and du[-1] are not read.

    perturb_singular: whether pivots near zero are replaced by tiny ones, so that x is finite.
    """
