"""jvp: forward-mode differentiation of a program."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, differentiated
from jaxprtool.interpreters import jvp as interpreter
from jaxprtool.interpreters.forward_mode import check_forward
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["jvp"]


def jvp(program: ClosedJaxpr, wrt: Sequence[Position] | None = None) -> ClosedJaxpr:
    """Return the jvp of a program: it computes the results and their tangents.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, that have a tangent; all
        inexact leaves by default.

    Returns:
      (a, tangents of a) -> (b, tangents of the inexact b).

    Raises:
      UnsupportedError: a function in it has a derivative only in reverse mode.
    """
    check_arrays(check_input(program), "jvp")
    flags, _ = differentiated(program, wrt)
    made = interpreter.jvp_jaxpr(within(program, "jvp"), flags)[0]
    check_forward(program, made, "jvp: ")
    return made
