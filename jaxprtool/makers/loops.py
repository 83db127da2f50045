"""Loops for rules that are written in terms of other primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.jaxpr import Value

__all__ = ["while_loop"]


def while_loop(
    holds: Callable[..., Value], step: Callable[..., Sequence[Value]], *init: Value
) -> list[Value]:
    """Apply `step` to the carry as long as `holds` is true of it; return the carry.

    Both get the whole carry as their arguments and must not close over traced values.
    """
    avals = [get_aval(x).strong for x in init]
    cond = stage(lambda *carry: [holds(*carry)], avals)
    body = stage(lambda *carry: step(*carry), avals)
    return lax.while_call(*init, cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=0, body_nconsts=0)
