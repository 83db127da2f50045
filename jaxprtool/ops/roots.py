"""Roots of functions."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments
from jaxprtool.core.primitive import param, primitive
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["custom_root"]


def _by_solver(avals: Sequence[Any], *, solve_jaxpr: Any, **_: Any) -> Arguments:
    return [(solve_jaxpr, avals[: len(solve_jaxpr.jaxpr.in_binders)])]


@primitive(name="CustomRoot", multiple_results=True, takes=_by_solver)
def custom_root(
    *args,
    solve_jaxpr: ClosedJaxpr = param(first=True),
    has_aux: bool = param(False, hidden="never", first=True),
):
    """solve_jaxpr of the first args, a root of a function; the other args are constants of what its derivative needs.

    That function is not in a text, so that the derivative is that of solve_jaxpr.

    solve_jaxpr: (constants, guess) -> the root, and what else there is to say of it.
    has_aux: whether there is more than the root.
    """
