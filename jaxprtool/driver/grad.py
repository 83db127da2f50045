"""grad: the gradient of a program with one scalar result."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.arguments import Position, argument_positions
from jaxprtool.driver.verify import check_arrays, check_input, positions
from jaxprtool.interpreters.linearize import grad_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["grad"]


def grad(
    program: ClosedJaxpr, wrt: Sequence[Position] = (0,), *, with_value: bool = False
) -> ClosedJaxpr:
    """The program of the gradient.

    Args:
      program: (a) -> one real scalar.
      wrt: positions or names of the arguments to differentiate by.
      with_value: whether the value comes first among the results.

    Returns:
      (a) -> (gradient by each of `wrt`).
    """
    check_arrays(check_input(program), "grad")
    chosen = argument_positions(program, wrt, "--wrt")
    with positions(program):
        return grad_jaxpr(within(program, "jvp"), chosen, with_value=with_value)
