"""The singular value decomposition."""

from jaxprtool.core.kinds.enums import SvdAlgorithm
from jaxprtool.core.primitive import optional, primitive, shown

__all__ = ["svd"]


@primitive(multiple_results=True)
def svd(
    a,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: tuple[int, int] | None = shown(None),
    algorithm: SvdAlgorithm | None = optional(None),
):
    """(s, U, V^H) with U diag(s) V^H = a, U and V unitary, s real and descending.

    full_matrices: whether U is m x m and V^H n x n, rather than m x k and k x n with k = min(m, n).
    compute_uv: whether U and V^H are results.
    subset_by_index: (first, end): the singular values first, ..., end - 1 are computed; None: all.
    algorithm: the algorithm: None, DEFAULT, QR or DIVIDE_AND_CONQUER on CPUs.
    """
