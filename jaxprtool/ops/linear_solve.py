"""Solvers of linear equations whose derivatives are implicit."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments
from jaxprtool.core.kinds.functions import SolverJaxprs, SolverLengths
from jaxprtool.core.primitive import primitive

__all__ = ["linear_solve"]


def _by_solvers(avals: Sequence[Any], *, const_lengths: Any, jaxprs: Any) -> Arguments:
    """Each takes its constants, and as many more as what follows all constants."""
    names = ("matvec", "vecmat", "solve", "transpose_solve")
    lengths = [getattr(const_lengths, name) for name in names]
    right = avals[sum(lengths) :]
    start = 0
    found: list[tuple[Any, Sequence[Any]]] = []
    for name, length in zip(names, lengths, strict=True):
        found.append((getattr(jaxprs, name), [*avals[start : start + length], *right]))
        start += length
    return found


@primitive(name="custom_linear_solve", multiple_results=True, takes=_by_solvers)
def linear_solve(*operands, const_lengths: SolverLengths, jaxprs: SolverJaxprs):
    """x with matvec(x) = b, as solve(b) computes it; solve may return further values after x.

    The operands are the constants of the four jaxprs, one jaxpr after the other, and b.

    const_lengths: the numbers of constants: a record with fields matvec, vecmat, solve, transpose_solve.
    jaxprs: a record with those fields: the linear function, its transpose, and solvers of both.
    """
