"""dce: remove what nobody reads."""

from __future__ import annotations

from jaxprtool.interpreters.dce import dce_closed, dce_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import map_programs
from jaxprtool.passes.registry import define_pass

__all__ = ["dce"]


@define_pass("dce", "bits types no-more-equations idempotent linear-time")
def dce(program: ClosedJaxpr) -> ClosedJaxpr:
    """Remove equations whose results nobody reads, at any depth, with operands and results of calls and loops.

    Equations with effects stay, and so do all arguments of the program. Constants go with their last reader.
    """
    made = map_programs(dce_closed(program), _without_dead)
    if made.jaxpr is program.jaxpr and len(made.consts) == len(program.consts):
        return program
    return program.replace(jaxpr=made.jaxpr, consts=made.consts)


def _without_dead(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr without dead equations; arguments, constants and results all stay, for equations that no rule can shrink."""
    smaller, _ = dce_jaxpr(closed.jaxpr, keep_inputs=True)
    return closed if smaller is closed.jaxpr else closed.replace(jaxpr=smaller)
