"""discharge: a program without references."""

from __future__ import annotations

from jaxprtool.driver.verify import check_input
from jaxprtool.interpreters import discharge as interpreter
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["discharge"]


def discharge(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program in pure form: what is in a cell is passed on as a value.

    Args:
      program: (a) -> (b), where some of a may be references.

    Returns:
      (a, with what is in the cells) -> (b, what is in the cells of a afterwards).
    """
    check_input(program)
    return interpreter.discharge(program)
