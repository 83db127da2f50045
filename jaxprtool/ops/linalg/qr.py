"""The QR decomposition, and the elementary reflectors that it is made of."""

from jaxprtool.core.primitive import primitive, shown

__all__ = ["geqrf", "householder_product", "ormqr", "qr"]


@primitive(multiple_results=True)
def geqrf(a):
    """(a', taus): R in the upper triangle of a', and reflectors whose product is Q below it.

    Reflector i is I - taus[i] v v^H, where v is zero before its element i, one there, and column i of a'
    below.
    """


@primitive
def householder_product(a, taus):
    """The first columns, as many as a has, of the product of reflectors as `geqrf` gives them."""


@primitive
def ormqr(a, taus, c, *, left: bool, transpose: bool):
    """Q c, where Q is the product of reflectors as `geqrf` gives them, of all rows and columns.

    left: whether Q stands on the left; else c Q.
    transpose: whether Q^H (Q^T of real ones) takes the place of Q.
    """


@primitive(multiple_results=True)
def qr(
    a, *, pivoting: bool = shown(False), full_matrices: bool, use_magma: bool | None = shown(None)
):
    """(Q, R) with Q R = a, Q unitary and R upper triangular; or (Q, R, p) with Q R = a[:, p].

    pivoting: whether columns are permuted, so that the diagonal of R does not grow.
    full_matrices: whether Q is m x m, rather than m x min(m, n), for a of shape m x n.
    use_magma: a choice of library for GPUs; no effect on the meaning.
    """
