"""Which jaxprs in its params an equation evaluates when it runs, and how often.

Contract of a `runs` rule:

    rule(params) -> the runs, in the order in which they happen

The cost of an equation whose primitive has such a rule is the cost of its runs. For a primitive
without a rule the jaxprs are a part of the operation (the sum of a `reduce`), or are not evaluated
at all (rules of derivatives).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value

__all__ = ["Run", "call_of", "runs_of", "runs_rules"]

runs_rules = RuleTable("runs")


class Run(NamedTuple):
    """A jaxpr that an equation runs.

    Attributes:
      param: the param that holds it.
      jaxpr: the jaxpr.
      times: how often it runs for certain.
      turns: how often it runs besides for each iteration of a loop whose number of iterations is
        not known.
      branch: its position among several jaxprs of which one runs; else None.
      position: its position among several jaxprs in the param, where the equation runs only this
        one; else None.
      devices: how many of these runs happen at the same time, each on a device of its own.
    """

    param: str
    jaxpr: ClosedJaxpr
    times: int = 1
    turns: int = 0
    branch: int | None = None
    devices: int = 1
    position: int | None = None


def call_of(param: str) -> Callable[[dict[str, Value]], list[Run]]:
    """Return the rule of a primitive that evaluates the jaxpr in a param once."""
    return lambda params: [Run(param, params[param])]


def runs_of(eqn: JaxprEqn) -> Sequence[Run]:
    """Return the runs of an equation; () where it is one operation."""
    if not eqn.primitive.holds_jaxprs:
        return ()
    rule = runs_rules.find(eqn.primitive)
    return () if rule is None else rule(eqn.params)
