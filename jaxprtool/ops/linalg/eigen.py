"""Eigenvalues and eigenvectors."""

from jaxprtool.core.kinds.enums import EigenvalueAlgorithm, EigenvalueLibrary
from jaxprtool.core.primitive import primitive, shown

__all__ = ["eig", "eigh", "eigh_jacobi"]


@primitive(multiple_results=True)
def eig(
    a,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool = shown(False),
    implementation: EigenvalueLibrary | None = shown(None),
):
    """(w, vl, vr): the eigenvalues of a square matrix, and its eigenvectors as columns.

    a vr = vr diag(w), and vl^H a = diag(w) vl^H. Results are complex. An eigenvector has norm 1, and its
    largest component is real. Vectors whose param is False are left out.

    compute_left_eigenvectors: whether vl is a result.
    compute_right_eigenvectors: whether vr is a result.
    enable_eigvec_derivs: whether eigenvectors may be differentiated, which assumes distinct eigenvalues.
    implementation: a choice of library; None or lapack on a CPU.
    """


@primitive(multiple_results=True)
def eigh(
    a,
    *,
    lower: bool,
    sort_eigenvalues: bool = shown(True),
    subset_by_index: tuple[int, int] | None = shown(None),
    algorithm: EigenvalueAlgorithm | None = shown(None),
):
    """(v, w) with a v = v diag(w), v unitary and w real and ascending, for a Hermitian matrix a.

    lower: whether the lower triangle of a is read, or the upper one.
    sort_eigenvalues: whether the order matters; it is ascending in any case.
    subset_by_index: the first and last+1 of the eigenvalues to compute, or None for all of them.
    algorithm: a choice of algorithm; None or QR on a CPU.
    """


@primitive(multiple_results=True)
def eigh_jacobi(a, *, lower: bool, sort_eigenvalues: bool = shown(True)):
    """(w, v) as of `eigh`, which has them the other way round, by rotations; JAX had it until 0.10.

    lower: as for `eigh`.
    sort_eigenvalues: as for `eigh`.
    """
