"""Solvers of linear equations whose derivatives are implicit."""

from jaxprtool.core.kinds.functions import SolverJaxprs, SolverLengths
from jaxprtool.core.primitive import primitive

__all__ = ["linear_solve"]


@primitive(name="custom_linear_solve", multiple_results=True)
def linear_solve(*operands, const_lengths: SolverLengths, jaxprs: SolverJaxprs):
    """x with matvec(x) = b, as solve(b) computes it; solve may return further values after x.

    The operands are the constants of the four jaxprs, one jaxpr after the other, and b.

    const_lengths: the numbers of constants: a record with fields matvec, vecmat, solve, transpose_solve.
    jaxprs: a record with those fields: the linear function, its transpose, and solvers of both.
    """
