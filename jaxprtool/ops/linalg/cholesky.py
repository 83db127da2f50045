"""The Cholesky decomposition."""

from jaxprtool.core.primitive import primitive

__all__ = ["cholesky", "cholesky_update", "symmetric_product"]


@primitive
def cholesky(a):
    """L with L L^H = a in its lower triangle, for a Hermitian positive definite matrix a.

    Only the lower triangle of a is read; the strict upper triangle of the result is that of a. The result is
    NaN where a is not positive definite.
    """


@primitive
def cholesky_update(r, w):
    """The upper triangular matrix R' with R'^T R' = r^T r + w w^T, for an upper triangular matrix r and a vector w."""


@primitive
def symmetric_product(a, c, *, alpha: float, beta: float):
    """alpha a a^T + beta c, for a symmetric matrix c.

    alpha: the factor of the product.
    beta: the factor of c.
    """
