"""`custom_root`: roots of functions, found by a solver that the user has given."""

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
    """solve_jaxpr(constants, guess): a root x with f(x) = 0 of a function f.

    Further operands are constants of f. JAX differentiates implicitly, by f. The text of a program
    does not hold f, so that here the derivative is that of solve_jaxpr.

    solve_jaxpr: (constants, guess) -> (root, auxiliary results).
    has_aux: whether there are auxiliary results.
    """
