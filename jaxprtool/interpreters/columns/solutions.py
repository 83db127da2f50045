"""Operations that solve A x = b and take A more than once: as a matrix, and in a form that the solver prepared.

Contract of a `solution` rule:

    rule(params) -> Solved

The results have the derivative of the solution only as long as these operands change together. With
respect to one of them alone there is no derivative.
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
      constants: the number of constants of `matvec`, which are the first operands.
      matrices: the number of operands that belong together; those that follow are b.
    """

    matvec: ClosedJaxpr
    constants: int
    matrices: int
