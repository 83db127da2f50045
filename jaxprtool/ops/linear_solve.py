"""Solvers of linear equations, differentiated implicitly: by the equation, not by the solver."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments
from jaxprtool.core.kinds.functions import SolverJaxprs, SolverLengths
from jaxprtool.core.primitive import primitive

__all__ = ["linear_solve"]


def _by_solvers(avals: Sequence[Any], *, const_lengths: Any, jaxprs: Any) -> Arguments:
    """Return for each of the four jaxprs its constants and the operands after all constants, b."""
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
    """x = solve(b), where matvec(x) = b for a linear function matvec; solve may return values after
    x.

    The operands are the constants of the four jaxprs, one jaxpr after the other, and b.

    const_lengths: a record of the numbers of constants of matvec, vecmat, solve, transpose_solve.
    jaxprs: the same record of jaxprs: matvec, its transpose, and solvers for both.
    """
