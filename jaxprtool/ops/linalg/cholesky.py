"""The Cholesky decomposition."""

from jaxprtool.core.primitive import primitive

__all__ = ["cholesky", "cholesky_update", "symmetric_product"]


@primitive
def cholesky(a):
    """L, lower triangular, with L L^H = a, for a Hermitian positive definite matrix a.

    Only the lower triangle of a is read. The result holds L in its lower triangle, and the elements
    of a above the diagonal. It is NaN if a is not positive definite.
    """


@primitive
def cholesky_update(r, w):
    """R, upper triangular, with R^T R = r^T r + w w^T, for an upper triangular r and a vector w."""


@primitive
def symmetric_product(a, c, *, alpha: float, beta: float):
    """alpha a a^T + beta c, for a symmetric matrix c.

    alpha: the factor of the product.
    beta: the factor of c.
    """
