"""Values that jaxprs ask for with an operation without operands, handed in as arguments: of all jaxprs inside, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.stage import hoist_consts
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["CannotPass", "Passing"]


class CannotPass(Exception):
    """An operation cannot be given more arguments; it is the only argument of the exception."""


class Passing:
    """Numbers (i32[]) that jaxprs get as their first arguments, in the place of equations that ask for them.

    Args:
      n: how many there are.
      asked: the position of the number that an equation asks for; None where it asks for none.
      again: whether an equation that asks stays, as one that gives its operand, for those who look at what has run.
    """

    def __init__(self, n: int, asked: Callable[[JaxprEqn], int | None], again: bool = False):
        self.n, self.asked, self.again = n, asked, again

    def jaxpr(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A jaxpr with the numbers as its first arguments. Raises CannotPass."""
        point = [Var(ShapedArray((), INT32)) for _ in range(self.n)]
        renamed: dict[Atom, Atom] = {}
        eqns: list[JaxprEqn] = []
        for eqn in closed.eqns:
            k = self.asked(eqn)
            if k is None:
                inputs = [renamed.get(x, x) for x in eqn.inputs]
                eqns.append(self.eqn(eqn.replace(inputs=inputs), point))
            elif self.again:
                same = lax.stop_gradient.primitive
                eqns.append(eqn.replace(primitive=same, inputs=[point[k]], params={}))
            else:
                renamed[eqn.out_binders[0]] = point[k]
        outs = [renamed.get(x, x) for x in closed.jaxpr.outs]
        made = closed.jaxpr.replace(
            in_binders=[*point, *closed.jaxpr.in_binders], eqns=eqns, outs=outs
        )
        return ClosedJaxpr(made, closed.consts)

    def asks(self, closed: ClosedJaxpr) -> bool:
        """Whether an equation of a jaxpr asks."""
        return any(self.asked(e) is not None for e in all_eqns(closed.jaxpr))

    def eqn(self, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
        """An equation whose jaxprs get the numbers, where one of them asks. Raises CannotPass."""
        if not any(map(self.asks, sub_jaxprs(eqn))):
            return eqn
        pass_on = _PASS_ON.get(eqn.primitive)
        if pass_on is None:
            raise CannotPass(eqn)
        return pass_on(self, eqn, point)


def _cond(how: Passing, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    branches = tuple(map(how.jaxpr, eqn.params["branches"]))
    index, *rest = eqn.inputs
    return eqn.replace(inputs=[index, *point, *rest], params={**eqn.params, "branches": branches})


def _scan(how: Passing, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    params = {
        **eqn.params,
        "jaxpr": how.jaxpr(eqn.params["jaxpr"]),
        "num_consts": eqn.params["num_consts"] + len(point),
        "linear": None,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs], params=params)


def _while(how: Passing, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    n, k = len(point), eqn.params["cond_nconsts"]
    params = {
        **eqn.params,
        "cond_jaxpr": how.jaxpr(eqn.params["cond_jaxpr"]),
        "body_jaxpr": how.jaxpr(eqn.params["body_jaxpr"]),
        "cond_nconsts": k + n,
        "body_nconsts": eqn.params["body_nconsts"] + n,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs[:k], *point, *eqn.inputs[k:]], params=params)


def _call(param: str, **changed: Any) -> Callable[[Passing, JaxprEqn, Sequence[Var]], JaxprEqn]:
    def pass_on(how: Passing, eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
        params = {**eqn.params, **changed}
        params[param] = how.jaxpr(hoist_consts(eqn.params[param]))
        return eqn.replace(inputs=[*point, *eqn.inputs], params=params)

    return pass_on


_PER_ARGUMENT = dict.fromkeys(
    ("donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts")
)
_PASS_ON = {
    lax.cond_call.primitive: _cond,
    lax.scan_call.primitive: _scan,
    lax.while_call.primitive: _while,
    lax.jit_call.primitive: _call("jaxpr", **_PER_ARGUMENT),
    lax.remat_call.primitive: _call("jaxpr"),
    lax.run_scoped.primitive: _call("jaxpr"),
    **{
        op.primitive: _call("call_jaxpr")
        for op in (lax.closed_call, lax.core_call, lax.call, lax.named_call)
    },
}
