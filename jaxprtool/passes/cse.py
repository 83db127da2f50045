"""cse: compute once what is computed several times (common-subexpression elimination)."""

from __future__ import annotations

from jaxprtool.interpreters.reuse.copies import without_copies
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.bodies import in_each_body
from jaxprtool.passes.registry import define_pass

__all__ = ["cse"]


@define_pass("cse", "bits types no-more-equations idempotent linear-time")
def cse(program: ClosedJaxpr) -> ClosedJaxpr:
    """Compute once what is computed several times: an equation whose operation, params and operands another one has.

    At any depth, in each jaxpr by itself. Equations with effects stay, and those that use references.
    """
    keys = Keys()
    return in_each_body(program, lambda closed: without_copies(closed, keys))
