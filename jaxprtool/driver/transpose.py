"""transpose: the transpose of a program that is linear in some of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, argument_parts, inexact_flags
from jaxprtool.interpreters import transpose as interpreter
from jaxprtool.interpreters.interfaces import by_parts
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["transpose"]


def transpose(program: ClosedJaxpr, linear: Sequence[Position]) -> ClosedJaxpr:
    """Return the transposed program.

    Args:
      program: (a, b) -> c, linear in b.
      linear: positions of leaves, or names of arguments or of parts of them: b.

    Returns:
      (a, cotangent of c) -> (cotangent of b).

    Raises:
      NotLinearError: it is not linear in b; the diagnostic names the equation that breaks it.
    """
    check_arrays(check_input(program), "transpose")
    parts = argument_parts(program, linear, "--linear")
    flags = inexact_flags(program, parts, "--linear")
    made = interpreter.transpose_jaxpr(program, flags)[0]
    return by_parts(made, sorted(parts, key=lambda p: p.start), after_outs=False)
