"""Kernels that are given the point of the grid as arguments, and do not ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.stage import hoist_consts
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["with_grid"]

_ID, _SIZE = lax.program_id.primitive, lax.num_programs.primitive


def with_grid(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """A kernel as a function of the point of a grid of n axes, of its sizes, and of what it takes: all i32[].

    Raises:
      UnsupportedError: it asks for the point inside of an operation that cannot be given it.
    """
    point = [Var(ShapedArray((), INT32)) for _ in range(2 * n)]
    renamed: dict[Atom, Atom] = {}
    eqns = []
    for eqn in closed.eqns:
        if eqn.primitive in (_ID, _SIZE):
            first = 0 if eqn.primitive is _ID else n
            renamed[eqn.out_binders[0]] = point[first + eqn.params["axis"]]
            continue
        inputs = [renamed.get(x, x) for x in eqn.inputs]
        eqns.append(_passed_on(eqn.replace(inputs=inputs), point))
    outs = [renamed.get(x, x) for x in closed.jaxpr.outs]
    jaxpr = Jaxpr([*point, *closed.jaxpr.in_binders], eqns, outs, closed.jaxpr.const_binders)
    return ClosedJaxpr(jaxpr, closed.consts)


def _asks(closed: ClosedJaxpr) -> bool:
    return any(e.primitive in (_ID, _SIZE) for e in all_eqns(closed.jaxpr))


def _passed_on(eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    """An equation whose jaxprs get the point of the grid as their first arguments, where one of them asks for it."""
    if not any(map(_asks, sub_jaxprs(eqn))):
        return eqn
    pass_on = _PASS_ON.get(eqn.primitive)
    if pass_on is None:
        fail(
            UnsupportedError,
            f"pallas_call: {eqn.primitive} in its jaxpr asks for the point of the grid, and cannot be lowered",
            "unsupported-kernel",
            span=eqn.span,
        )
    return pass_on(eqn, point)


def _cond(eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    branches = tuple(with_grid(b, len(point) // 2) for b in eqn.params["branches"])
    index, *rest = eqn.inputs
    return eqn.replace(inputs=[index, *point, *rest], params={**eqn.params, "branches": branches})


def _scan(eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    params = {
        **eqn.params,
        "jaxpr": with_grid(eqn.params["jaxpr"], len(point) // 2),
        "num_consts": eqn.params["num_consts"] + len(point),
        "linear": None,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs], params=params)


def _while(eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
    n, k = len(point), eqn.params["cond_nconsts"]
    params = {
        **eqn.params,
        "cond_jaxpr": with_grid(eqn.params["cond_jaxpr"], n // 2),
        "body_jaxpr": with_grid(eqn.params["body_jaxpr"], n // 2),
        "cond_nconsts": k + n,
        "body_nconsts": eqn.params["body_nconsts"] + n,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs[:k], *point, *eqn.inputs[k:]], params=params)


def _call(param: str, **changed: Any) -> Callable[[JaxprEqn, Sequence[Var]], JaxprEqn]:
    def pass_on(eqn: JaxprEqn, point: Sequence[Var]) -> JaxprEqn:
        params = {**eqn.params, **changed}
        params[param] = with_grid(hoist_consts(eqn.params[param]), len(point) // 2)
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
