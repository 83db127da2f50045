"""discharge: remove references."""

from __future__ import annotations

from jaxprtool.interpreters import discharge as interpreter
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.registry import define_pass

__all__ = ["discharge"]


@define_pass("discharge", "bits idempotent")
def discharge(program: ClosedJaxpr) -> ClosedJaxpr:
    """Pass on what is in the cells of references as values; arguments that are references become results, too."""
    return interpreter.discharge(program)
