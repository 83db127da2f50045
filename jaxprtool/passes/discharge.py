"""discharge: a program with references as a pure one."""

from __future__ import annotations

from jaxprtool.interpreters.discharge import discharge_jaxpr, has_refs
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["discharge"]


def discharge(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without references: what is in a cell is passed on as a value.

    Args:
      program: (a) -> (b), where some of a may be references.

    Returns:
      (a, with what is in the cells) -> (b, what is in the cells of a afterwards).

    Raises:
      MissingRuleError: an equation uses references in a way that has no rule.
    """
    return discharge_jaxpr(program) if has_refs(program.jaxpr) else program
