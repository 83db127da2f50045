"""dce: without what nobody reads."""

from __future__ import annotations

from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.registry import define_pass

__all__ = ["dce"]


@define_pass("dce", "bits types no-more-equations idempotent linear-time")
def dce(program: ClosedJaxpr) -> ClosedJaxpr:
    """Remove equations whose results nobody reads, at any depth, with operands and results of calls and loops.

    Equations with effects stay, and so do all arguments of the program. Constants go with their last reader.
    """
    made = dce_closed(program)
    if made.jaxpr is program.jaxpr and len(made.consts) == len(program.consts):
        return program
    return program.replace(jaxpr=made.jaxpr, consts=made.consts)
