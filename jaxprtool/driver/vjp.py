"""vjp: reverse-mode differentiation of a program."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, differentiated
from jaxprtool.interpreters.interfaces import by_parts
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["vjp"]


def vjp(
    program: ClosedJaxpr, wrt: Sequence[Position] | None = None, *, keep_outs: bool = True
) -> ClosedJaxpr:
    """Return the vjp of a program: it computes the results, and the cotangents of the arguments.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, whose cotangents are
        wanted; all inexact leaves by default.
      keep_outs: whether b is among the results.

    Returns:
      (a, cotangents of the inexact b) -> (b, cotangents of a), these in the order of the arguments.
    """
    check_arrays(check_input(program), "vjp")
    flags, parts = differentiated(program, wrt)
    made = vjp_jaxpr(within(program, "jvp"), flags, keep_outs=keep_outs)
    return made if parts is None else by_parts(made, parts, after_outs=keep_outs)
