"""Checks of programs at values, as functions of Python: each takes a program, or a JAX function with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.gradcheck_answer import GradCheck
from jaxprtool.core.tree import tree_leaves
from jaxprtool.driver import gradcheck as gradchecking
from jaxprtool.driver.api import as_program, is_function
from jaxprtool.driver.places import with_places
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["gradcheck"]


def gradcheck(
    program: Any, *args: Any, modes: str | Sequence[str] = "fwd,rev", **how: Any
) -> GradCheck:
    """Whether the derivatives of a program, or of a function, are those that finite differences give.

    Args:
      program, args: as `run` takes them.
      modes: `fwd` (jvp), `rev` (vjp), or both.
      how: keywords of `driver.gradcheck`: `order`, `eps`, `rtol`, `atol`, `seed`.

    Returns:
      An object with `passed`, `blame` (the equations whose rules are wrong, with their places) and `derivatives` (what
      was found in each mode); `str` of it is what `jaxprtool gradcheck` prints.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError, MissingRuleError: as `driver.gradcheck`.
    """
    words = modes.split(",") if isinstance(modes, str) else modes
    found, leaves = _placed(program, args)
    return gradchecking.gradcheck(found, leaves, modes=[m.strip() for m in words], **how)


def _placed(program: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, Sequence[Any]]:
    """A program whose equations have places, and its arguments, one by one."""
    if not is_function(program):
        return with_places(as_program(program)), args
    name = getattr(program, "__name__", type(program).__name__)
    return with_places(as_program(program, *args), name), tree_leaves(args)
