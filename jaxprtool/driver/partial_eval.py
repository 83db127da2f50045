"""partial-eval: a program split by which of its arguments are known."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.arguments import Position, argument_parts, flags_of
from jaxprtool.driver.verify import check_input
from jaxprtool.interpreters.partial_eval import partial_eval_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["partial_eval"]


def partial_eval(program: ClosedJaxpr, known: Sequence[Position]) -> dict[str, ClosedJaxpr]:
    """Split a program into the equations that depend on known arguments only, and the rest.

    Args:
      program: (a1, a2) -> (b1, b2).
      known: positions of leaves, or names of arguments or of parts of them: a1.

    Returns:
      `known`: a1 -> (b1, residuals); `unknown`: (residuals, a2) -> b2.
    """
    check_input(program)
    flags = flags_of(program, argument_parts(program, known, "--known"))
    first, second, _, _ = partial_eval_jaxpr(program, [not k for k in flags])
    return {"known": first, "unknown": second}
