"""vjp: reverse-mode differentiation of a program."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.arguments import Position, wanted_flags
from jaxprtool.driver.verify import check_arrays, check_input, positions
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["vjp"]


def vjp(
    program: ClosedJaxpr, wrt: Sequence[Position] | None = None, *, keep_outs: bool = True
) -> ClosedJaxpr:
    """The program of value and pullback.

    Args:
      program: (a) -> (b).
      wrt: positions or names of the arguments whose cotangents are wanted; all inexact ones by default.
      keep_outs: whether b is among the results.

    Returns:
      (a, cotangents of the inexact b) -> (b, cotangents of a).
    """
    check_arrays(check_input(program), "vjp")
    flags = wanted_flags(program, wrt, "--wrt", inexact=True)
    with positions(program):
        return vjp_jaxpr(within(program, "jvp"), flags, keep_outs=keep_outs)
