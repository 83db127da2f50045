"""Static cost of operations.

Contract of a `cost` rule:

    rule(in_avals, out_avals, **params) -> flops      (or a `Cost`, where that is not all)

The number of arithmetic operations on elements: a multiply-add is two, a transcendental function is one.
Bytes moved are the sizes of operands and results, for all primitives alike; see `cost_eqn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo

__all__ = ["FREE", "Cost", "PER_INPUT", "PER_OUTPUT", "cost_eqn", "cost_jaxpr", "cost_rules"]

cost_rules = RuleTable("cost")


class Cost(NamedTuple):
    """What an operation takes: element operations, and bytes read and written."""

    flops: int
    bytes: int

    def __add__(self, other: Any) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)


def FREE(in_avals: Sequence[Any], out_avals: Sequence[Any], **_: Any) -> int:
    """No arithmetic: moves elements, or nothing at all."""
    return 0


def PER_OUTPUT(in_avals: Sequence[Any], out_avals: Sequence[Any], **_: Any) -> int:
    """One operation for each element of the result."""
    return sum(max(a.size, 0) for a in out_avals)


def PER_INPUT(in_avals: Sequence[Any], out_avals: Sequence[Any], **_: Any) -> int:
    """One operation for each element of the first operand."""
    return max(in_avals[0].size, 0)


def cost_eqn(eqn: JaxprEqn) -> Cost:
    """The cost of one equation; calls cost what they call."""
    ins, outs = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
    moved = sum(getattr(a, "nbytes", 0) for a in (*ins, *outs))
    rule = cost_rules.rules.get(eqn.primitive) or cost_rules[eqn.primitive]
    result = rule(ins, outs, **eqn.params)
    return result if isinstance(result, Cost) else Cost(result, moved)


@deep
def cost_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Cost:
    """The cost of running a jaxpr once, without fusion; found once for each jaxpr object."""
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    found = _COST.find(jaxpr)
    if found is None:
        total = Cost(0, 0)
        for eqn in jaxpr.eqns:
            total += cost_eqn(eqn)
        found = _COST.keep(jaxpr, total)
    return found


_COST = Memo[Cost]("cost")
