"""lower: a program as StableHLO text."""

from __future__ import annotations

from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.stablehlo.module import StableHLO

__all__ = ["lower"]


def lower(program: ClosedJaxpr, name: str = "main") -> StableHLO:
    """Lower a program to StableHLO. Neither NumPy nor jaxlib is imported.

    Args:
      program: the program; constants without a value become the first arguments.
      name: the module is called `jit_<name>`.

    Returns:
      The module; `str()` of it is the text.

    Raises:
      MissingRuleError: a primitive has no `lower` rule; the diagnostic has the equation's position.
      UnsupportedError: a type that StableHLO does not have.
    """
    return lower_jaxpr(program, name)
