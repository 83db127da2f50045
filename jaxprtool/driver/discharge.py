"""discharge: a program without references."""

from __future__ import annotations

from jaxprtool.driver.verify import check_input
from jaxprtool.interpreters import discharge as interpreter
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["discharge"]


def discharge(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program in pure form: the contents of cells are passed on as values.

    Args:
      program: (a) -> (b), where some of a may be references.

    Returns:
      (a, with the contents of cells for references) -> (b, the contents of the cells of a
        afterwards).
    """
    check_input(program)
    return interpreter.discharge(program)
