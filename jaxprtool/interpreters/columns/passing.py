"""Turn operations without operands that ask for a number (the index of a device, say) into reads of arguments.

The numbers become the first arguments of the jaxpr, and of every jaxpr inside it that asks for one.

Contract of a `passing` rule, for primitives whose params hold jaxprs:

    rule(passed, eqn, point) -> the equation

It returns the equation with `passed(closed)` in the place of each of its jaxprs, which takes the
numbers as its first arguments, and with the variables `point`, which hold the numbers, as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.interpreters.contracts import PassingRule
from jaxprtool.interpreters.stage import hoist_consts
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["CannotPass", "Passing", "call_passing", "passing_rules"]

passing_rules = RuleTable("passing")


class CannotPass(Exception):
    """An equation whose jaxprs cannot be given more arguments; the equation is the only argument of the exception."""


class Passing:
    """Gives jaxprs numbers (i32[]) as their first arguments, which replace the equations that ask for them.

    Args:
      n: how many numbers there are.
      asked: returns the position of the number that an equation asks for; None where it asks for
        none.
      instead: returns the equation that replaces one that asks, given the number. None: the number
        replaces the result of the equation.
    """

    def __init__(
        self,
        n: int,
        asked: Callable[[JaxprEqn], int | None],
        instead: Callable[[JaxprEqn, Var], JaxprEqn] | None = None,
    ):
        self.n, self.asked, self.instead = n, asked, instead

    def jaxpr(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return a jaxpr with the numbers as its first arguments. Raises CannotPass."""
        point = [Var(ShapedArray((), INT32)) for _ in range(self.n)]
        renamed: dict[Atom, Atom] = {}
        eqns: list[JaxprEqn] = []
        for eqn in closed.eqns:
            k = self.asked(eqn)
            if k is None:
                inputs = [renamed.get(x, x) for x in eqn.inputs]
                eqns.append(self.eqn(eqn.replace(inputs=inputs), point))
            elif self.instead is not None:
                eqns.append(self.instead(eqn, point[k]))
            else:
                renamed[eqn.out_binders[0]] = point[k]
        outs = [renamed.get(x, x) for x in closed.jaxpr.outs]
        made = closed.jaxpr.replace(
            in_binders=[*point, *closed.jaxpr.in_binders], eqns=eqns, outs=outs
        )
        return ClosedJaxpr(made, closed.consts)

    def asks(self, closed: ClosedJaxpr) -> bool:
        """Whether an equation of a jaxpr asks for a number, at any depth."""
        return any(self.asked(e) is not None for e in all_eqns(closed.jaxpr))

    def eqn(self, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
        """Return an equation whose jaxprs take the numbers, where one of them asks.

        Raises CannotPass.
        """
        if not any(map(self.asks, sub_jaxprs(eqn))):
            return eqn
        rule = passing_rules.find(eqn.primitive)
        if rule is None:
            raise CannotPass(eqn)
        return rule(self.jaxpr, eqn, point)


def call_passing(param: str, **changed: Any) -> PassingRule:
    """Return the `passing` rule of a call whose operands are the arguments of the jaxpr in `param`.

    `changed` are params that the new equation has instead of its own.
    """

    def rule(
        passed: Callable[[ClosedJaxpr], ClosedJaxpr], eqn: JaxprEqn, point: Sequence[Var]
    ) -> JaxprEqn:
        params = {**eqn.params, **changed, param: passed(hoist_consts(eqn.params[param]))}
        return eqn.replace(inputs=[*point, *eqn.inputs], params=params)

    return rule
