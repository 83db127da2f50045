"""Operations that solve A x = b, and have A among their operands more than once: as a matrix, and as what the solver made of it.

Contract of a `solution` rule:

    rule(params) -> Solved

Their results have the derivative of the solution as long as these operands belong together: one that changes alone has none.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Solved", "solution_rules"]

solution_rules = RuleTable("solution")


class Solved(NamedTuple):
    """The equation that an operation solves.

    Attributes:
      matvec: (constants, x) -> A x.
      constants: how many it takes: the first operands.
      matrices: how many operands belong together; those that follow are b.
    """

    matvec: ClosedJaxpr
    constants: int
    matrices: int
