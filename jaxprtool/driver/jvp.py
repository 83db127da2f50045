"""jvp: forward-mode differentiation of a program."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.arguments import Position, wanted_flags
from jaxprtool.driver.verify import check_arrays, check_input, positions
from jaxprtool.interpreters import jvp as interpreter
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["jvp"]


def jvp(program: ClosedJaxpr, wrt: Sequence[Position] | None = None) -> ClosedJaxpr:
    """The program of value and tangent.

    Args:
      program: (a) -> (b).
      wrt: positions or names of the arguments that have a tangent; all inexact ones by default.

    Returns:
      (a, tangents of a) -> (b, tangents of the inexact b).
    """
    check_arrays(check_input(program), "jvp")
    flags = wanted_flags(program, wrt, "--wrt", inexact=True)
    with positions(program):
        return interpreter.jvp_jaxpr(program, flags)[0]
