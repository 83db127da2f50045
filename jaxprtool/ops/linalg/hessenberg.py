"""Hessenberg and Schur forms."""

from jaxprtool.core.kinds.objects import Function
from jaxprtool.core.primitive import primitive, shown

__all__ = ["hessenberg", "schur"]


@primitive(multiple_results=True)
def hessenberg(a):
    """(a', taus): the Hessenberg form H = Q^H a Q of a square matrix a, with Q unitary.

    a' holds H in its upper triangle and first subdiagonal. Below, it holds the reflectors whose
    product is Q, as `geqrf` stores them, but one row lower.
    """


@primitive(multiple_results=True)
def schur(
    a,
    *,
    compute_schur_vectors: bool,
    sort_eig_vals: bool = shown(False),
    select_callable: Function | None = shown(None),
):
    """(T, Z) with a = Z T Z^H, Z unitary and T upper triangular.

    A real a has real results; T then has 2 x 2 blocks on its diagonal for pairs of complex eigenvalues.

    compute_schur_vectors: whether Z is a result.
    sort_eig_vals: whether the eigenvalues are sorted; True is not implemented, as in JAX.
    select_callable: which eigenvalues come first when sorted; not implemented, as in JAX.
    """
