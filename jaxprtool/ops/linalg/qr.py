"""The QR decomposition, and the Householder reflectors whose product is Q."""

from jaxprtool.core.primitive import primitive, shown

__all__ = ["geqrf", "householder_product", "ormqr", "qr"]


@primitive(multiple_results=True)
def geqrf(a):
    """(a', taus): the QR decomposition a = Q R, with Q as a product of Householder reflectors.

    a' holds R in its upper triangle and the reflectors below. Reflector i is I - taus[i] v v^H,
    where v[:i] = 0, v[i] = 1 and v[i+1:] = a'[i+1:, i].
    """


@primitive
def householder_product(a, taus):
    """The first n columns of Q = H_0 H_1 ..., for a of shape m x n.

    The H_i are reflectors, stored in (a, taus) as the results of `geqrf` store them.
    """


@primitive
def ormqr(a, taus, c, *, left: bool, transpose: bool):
    """Q c or c Q, where Q is the square matrix H_0 H_1 ... of reflectors.

    The H_i are stored in (a, taus) as the results of `geqrf` store them.

    left: whether the result is Q c, rather than c Q.
    transpose: whether Q^H takes the place of Q.
    """


@primitive(multiple_results=True)
def qr(
    a, *, pivoting: bool = shown(False), full_matrices: bool, use_magma: bool | None = shown(None)
):
    """(Q, R) with Q R = a, Q unitary and R upper triangular; or (Q, R, p) with Q R = a[:, p].

    pivoting: whether columns are permuted so that the diagonal of R descends in absolute value.
    full_matrices: whether Q is m x m, rather than m x min(m, n), for a of shape m x n.
    use_magma: whether GPUs use the library MAGMA; no effect on the meaning.
    """
