"""Reducers for which NumPy has a function.

Contract of a `monoid` rule, for associative operations that NumPy has as one function:

    rule(dtype) -> Monoid
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Monoid", "monoid_of", "monoid_rules"]

monoid_rules = RuleTable("monoid")


class Monoid(NamedTuple):
    """A NumPy function that reduces as a reducer does.

    Attributes:
      ufunc: the function's name.
      unit: its neutral element, a Python scalar.
    """

    ufunc: str
    unit: Any


def monoid_of(closed: ClosedJaxpr) -> Monoid | None:
    """The NumPy function that does what a reducer of one operand does; None where there is none."""
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.in_binders) != 2:
        return None
    (eqn,) = jaxpr.eqns
    rule = monoid_rules.find(eqn.primitive)
    if rule is None or set(eqn.inputs) != set(jaxpr.in_binders) or jaxpr.outs != eqn.out_binders:
        return None
    return rule(jaxpr.in_binders[0].aval.dtype)
