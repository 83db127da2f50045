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
    """(w, vl, vr) with a vr = vr diag(w) and vl^H a = diag(w) vl^H, for a square matrix a.

    w are the eigenvalues; the columns of vl and vr are left and right eigenvectors of norm 1, whose
    largest component is real. All results are complex.

    compute_left_eigenvectors: whether vl is a result.
    compute_right_eigenvectors: whether vr is a result.
    enable_eigvec_derivs: whether eigenvectors may be differentiated, if all eigenvalues differ.
    implementation: the library: None or lapack on CPUs.
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
    sort_eigenvalues: whether w must ascend; here it always does.
    subset_by_index: (first, end): the eigenvalues first, ..., end - 1 are computed; None: all.
    algorithm: the algorithm: None or QR on CPUs.
    """


@primitive(multiple_results=True)
def eigh_jacobi(a, *, lower: bool, sort_eigenvalues: bool = shown(True)):
    """(w, v) with a v = v diag(w), as `eigh`, computed by Jacobi rotations (JAX up to 0.10).

    lower: as for `eigh`.
    sort_eigenvalues: as for `eigh`.
    """
