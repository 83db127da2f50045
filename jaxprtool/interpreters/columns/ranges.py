"""Where the results of an operation are, whatever its operands are.

Contract of a `range` rule, for operations whose results are not all numbers:

    rule(params) -> Range

It is about finite floating-point numbers; of integers, which wrap around, and of complex numbers nothing is said.
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
    """Numbers from a least one to a greatest one.

    Attributes:
      low, high: the bounds.
      zero: whether 0 is among them, but by underflow.
    """

    low: float = -math.inf
    high: float = math.inf
    zero: bool = True

    @property
    def is_away_from_zero(self) -> bool:
        """Whether no number is 0."""
        return not self.zero or self.low > 0 or self.high < 0


def within(
    low: float, high: float = math.inf, *, zero: bool = True
) -> Callable[[dict[str, ParamValue]], Range]:
    """The rule of an operation with the same range for all params."""
    found = Range(low, high, zero)
    return lambda params: found


def range_of(eqn: JaxprEqn) -> Range:
    """Where the results of an equation are."""
    rule = range_rules.find(eqn.primitive)
    return Range() if rule is None else rule(eqn.params)
