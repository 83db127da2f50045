"""The range of the results of an operation, whatever its operands are.

Contract of a `range` rule, for operations whose results cannot be just any number:

    rule(params) -> Range

It holds for finite floating-point numbers. It says nothing about integers, which wrap around, and
complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import ParamValue

__all__ = ["Range", "range_of", "range_rules", "within"]

range_rules = RuleTable("range")


class Range(NamedTuple):
    """An interval of numbers.

    Attributes:
      low: the least number.
      high: the greatest number.
      zero: whether 0 is included; underflow can give 0 nevertheless.
    """

    low: float = -math.inf
    high: float = math.inf
    zero: bool = True

    @property
    def is_away_from_zero(self) -> bool:
        """Whether the interval does not contain 0."""
        return not self.zero or self.low > 0 or self.high < 0


def within(
    low: float, high: float = math.inf, *, zero: bool = True
) -> Callable[[dict[str, ParamValue]], Range]:
    """Return the rule of an operation with the same range for all params."""
    found = Range(low, high, zero)
    return lambda params: found


def range_of(eqn: JaxprEqn) -> Range:
    """Return the range of the results of an equation; all numbers where its primitive has no rule."""
    rule = range_rules.find(eqn.primitive)
    return Range() if rule is None else rule(eqn.params)
