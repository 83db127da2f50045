"""Tridiagonal matrices: reduction of Hermitian matrices to them, and linear systems with them."""

from jaxprtool.core.primitive import primitive, shown

__all__ = ["tridiagonal", "tridiagonal_solve"]


@primitive(multiple_results=True)
def tridiagonal(a, *, lower: bool):
    """(a', d, e, taus): the tridiagonal form T = Q^H a Q of a Hermitian matrix a, with Q unitary.

    d is the diagonal of T and e its off-diagonal, both real. Q is a product of Householder
    reflectors: their vectors are in the rest of the triangle of a' that was read, their factors are
    taus.

    lower: whether the lower triangle of a is read, or the upper one.
    """


@primitive
def tridiagonal_solve(dl, d, du, b, *, perturb_singular: bool = shown(False)):
    """x with T x = b, where T[i, i-1] = dl[i], T[i, i] = d[i], T[i, i+1] = du[i] and the rest is 0.

    dl[0] and du[-1] are not read.

    perturb_singular: whether pivots near zero are replaced by tiny numbers, so that x is finite.
    """
