"""Whole programs whose derivatives compute again what a policy does not keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.primitive import primitive_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var

__all__ = ["checkpointed", "with_names"]


def checkpointed(program: ClosedJaxpr, policy: Any) -> ClosedJaxpr:
    """The program as the jaxpr of one `remat2` with a policy (a value of its param); interface and constants stay."""
    jaxpr = program.jaxpr
    binders = [*jaxpr.const_binders, *jaxpr.in_binders]
    inner = ClosedJaxpr(Jaxpr(binders, jaxpr.eqns, jaxpr.outs, (), jaxpr.span))
    consts = [Var(v.aval, v.name) for v in jaxpr.const_binders]
    args = [Var(v.aval, v.name) for v in jaxpr.in_binders]
    outs = [Var(x.aval.strong) for x in jaxpr.outs]
    params = {"jaxpr": inner, "policy": policy, "prevent_cse": True, "differentiated": False}
    eqn = JaxprEqn(primitive_of(lax.remat_call), [*consts, *args], params, outs, jaxpr.span)
    return program.replace(jaxpr=Jaxpr(args, [eqn], outs, consts, jaxpr.span))


def with_names(program: ClosedJaxpr, names: Mapping[Var, str]) -> ClosedJaxpr:
    """The program in which some results of its equations have names that policies know (`checkpoint_name`).

    Args:
      program: the program.
      names: variable -> name.
    """
    jaxpr, primitive = program.jaxpr, primitive_of(lax.checkpoint_name)
    named: dict[Any, Var] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        inputs = [x if isinstance(x, Lit) else named.get(x, x) for x in eqn.inputs]
        eqns.append(eqn.replace(inputs=inputs))
        for v in eqn.out_binders:
            if v in names:
                named[v] = Var(v.aval.strong)
                name = {"name": names[v]}
                eqns.append(JaxprEqn(primitive, [v], name, [named[v]], eqn.span, None, eqn.origin))
    outs = [x if isinstance(x, Lit) else named.get(x, x) for x in jaxpr.outs]
    return program.replace(jaxpr=jaxpr.replace(eqns=eqns, outs=outs))
