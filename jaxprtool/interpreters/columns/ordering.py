"""Which effects are ordered: they happen in program order, even where a compiler could reorder the operations.

Contract of an `order` rule:

    rule(params) -> bool

It returns whether the effects of an equation with these params are ordered; those of a primitive
without a rule are not.
"""

from __future__ import annotations

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["is_ordered", "order_rules"]

order_rules = RuleTable("order")


def is_ordered(closed: ClosedJaxpr) -> bool:
    """Whether a jaxpr, or one inside it, has ordered effects.

    Not recursive, so any depth is fine.
    """
    found = _ORDERED.find(closed.jaxpr)
    if found is not None:
        return found
    stack = [closed.jaxpr]
    while stack:
        jaxpr = stack[-1]
        inner = [c.jaxpr for eqn in jaxpr.eqns for c in sub_jaxprs(eqn)]
        new = [j for j in inner if _ORDERED.find(j) is None]
        if new:
            stack.extend(new)
            continue
        here = any(map(_is_ordered_itself, jaxpr.eqns))
        _ORDERED.keep(jaxpr, here or any(map(_ORDERED.find, inner)))
        stack.pop()
    return bool(_ORDERED.find(closed.jaxpr))


_ORDERED = Memo[bool]("has ordered effects")


def _is_ordered_itself(eqn: JaxprEqn) -> bool:
    rule = order_rules.find(eqn.primitive)
    return rule is not None and rule(eqn.params)
