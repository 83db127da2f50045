"""grad: the gradient of a program with one scalar result."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, argument_parts
from jaxprtool.interpreters.interfaces import by_parts
from jaxprtool.interpreters.linearize import grad_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import Part
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["grad"]


def grad(
    program: ClosedJaxpr, wrt: Sequence[Position] | None = None, *, with_value: bool = False
) -> ClosedJaxpr:
    """Return the gradient of a program that returns a scalar.

    Args:
      program: (a) -> one real scalar.
      wrt: positions of leaves, or names of arguments or of parts of them, to differentiate by; by
        default the whole first argument, as in `jax.grad`.
      with_value: whether the value comes first among the results.

    Returns:
      (a) -> (gradient by each of `wrt`). The gradient has the tree of the argument it is by; a
        tuple for several.
    """
    check_arrays(check_input(program), "grad")
    parts = [_first(program)] if wrt is None else argument_parts(program, wrt, "--wrt")
    chosen = [i for part in parts for i in part.positions]
    made = grad_jaxpr(within(program, "jvp"), chosen, with_value=with_value)
    return by_parts(made, parts, after_outs=with_value)


def _first(program: ClosedJaxpr) -> Part:
    """Return the first argument: all leaves of it where the interface says which they are."""
    if program.interface is None or not program.interface.args:
        return argument_parts(program, (0,), "--wrt")[0]
    part, (name, _) = program.interface.parts()[0], program.interface.args[0]
    if not part.tree.size:
        message = f"grad is by the first argument, and {name} has no arrays"
        fail(UsageError, message, "grad-input", help="choose other arguments with --wrt")
    return part
