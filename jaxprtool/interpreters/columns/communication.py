"""Count the bytes that collectives send between the members of named axes.

Contract of a `sends` rule:

    rule(in_avals, out_avals, members, **params) -> bytes

It returns the bytes that each of `members` members sends to others, by an algorithm that sends as
few as possible (a ring). An operation without a rule sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import Aval, JaxprEqn

__all__ = ["bytes_sent", "sends_rules"]

sends_rules = RuleTable("sends")


def bytes_sent(eqn: JaxprEqn, axes: Sequence[str], sizes: Mapping[str, int]) -> int | None:
    """Return the bytes that each member sends along named axes; None where the equation is no
    collective, or an axis is not bound.

    Args:
      eqn: the equation.
      axes: the names that it acts along.
      sizes: the sizes of the axes in scope.
    """
    rule = sends_rules.find(eqn.primitive)
    if rule is None or not all(axis in sizes for axis in axes):
        return None
    members = 1
    for axis in axes:
        members *= sizes[axis]
    groups: Any = eqn.params.get("axis_index_groups")
    if isinstance(groups, (tuple, list)) and groups:
        members = max(map(len, groups))
    if members < 2:
        return 0
    ins, outs = [_held(x.aval) for x in eqn.inputs], [_held(v.aval) for v in eqn.out_binders]
    return rule(ins, outs, members, **eqn.params)


def _held(aval: Aval) -> Aval:
    """Return the type of a value; for a future, the type of the value that it will deliver."""
    return getattr(aval, "inner", aval)
