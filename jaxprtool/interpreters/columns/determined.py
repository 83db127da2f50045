"""Which operations have results that their operands and params determine, so that two implementations can be compared.

Contract of a `determined` rule:

    rule(in_avals, params) -> True, False or "finite"

"finite" means that the results are determined where all values are finite. A primitive without a
rule is determined. Rules return False for random bits that a platform draws in its own way, for
uninitialised memory, for an order that is free, and where params make a promise about operands
(that indices are unique, say) that random operands break.
"""

from __future__ import annotations

from typing import Any, Literal

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns

__all__ = ["Determined", "determined_rules", "is_determined", "undetermined"]

determined_rules = RuleTable("determined")


def undetermined(in_avals: Any, params: dict[str, Any]) -> bool:
    """The rule of an operation whose results are never determined."""
    del in_avals, params
    return False


Determined = bool | Literal["finite"]


def is_determined(program: ClosedJaxpr) -> Determined:
    """Whether operands and params determine the results of all equations of a program, nested jaxprs included."""
    found = [*map(_is_determined_itself, all_eqns(program.jaxpr))]
    return all(found) and ("finite" if "finite" in found else True)


def _is_determined_itself(eqn: JaxprEqn) -> Determined:
    rule = determined_rules.find(eqn.primitive)
    return rule is None or rule([x.aval for x in eqn.inputs], eqn.params)
