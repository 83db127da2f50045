"""hoist: compute once, before a loop, what is the same in each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.passes.bodies import NewBody, in_each_body, is_pure
from jaxprtool.passes.registry import define_pass

__all__ = ["hoist"]


@define_pass("hoist", "bits types idempotent linear-time")
def hoist(program: ClosedJaxpr) -> ClosedJaxpr:
    """Move equations of loops that depend on constants of the loop alone in front of it, out of loops inside loops too.

    Equations with effects stay, and those of literals alone, which take memory instead of time outside. A loop that takes no step
    computes them once, too; so what may not end, or may fail, stays: loops until a condition, and functions of Python.
    """
    return in_each_body(program, _hoisted)


def _hoisted(closed: ClosedJaxpr) -> ClosedJaxpr:
    body = NewBody(closed)
    for old in closed.eqns:
        eqn = body.renamed(old)
        if eqn.primitive is lax.scan_call.primitive:
            eqn = _out_of(body, eqn, "jaxpr", "num_consts", 0)
        elif eqn.primitive is lax.while_call.primitive:
            eqn = _out_of(body, eqn, "cond_jaxpr", "cond_nconsts", 0)
            eqn = _out_of(body, eqn, "body_jaxpr", "body_nconsts", eqn.params["cond_nconsts"])
        body.add(eqn)
    return body.result()


def _out_of(body: NewBody, eqn: JaxprEqn, param: str, count: str, start: int) -> JaxprEqn:
    """Return a loop without the equations of one of its jaxprs that depend only on its constants; add these to `body` before it.

    Args:
      body: the jaxpr around the loop.
      eqn: the loop.
      param: which of its jaxprs.
      count: the param that says how many of its operands are constants of that jaxpr.
      start: the first of these operands.
    """
    inner: ClosedJaxpr = eqn.params[param]
    n = eqn.params[count]
    jaxpr = inner.jaxpr
    consts = jaxpr.in_binders[:n]
    moved = _invariant(jaxpr, consts)
    if not moved:
        return eqn
    outside: dict[Any, Any] = dict(zip(consts, eqn.inputs[start : start + n], strict=True))
    for e in moved:
        new = [Var(v.aval, v.name) for v in e.out_binders]
        ins = [x if type(x) is Lit else outside[x] for x in e.inputs]
        outside.update(zip(e.out_binders, new, strict=True))
        body.add(e.replace(inputs=ins, out_binders=new))
    gone = {*moved}
    left = [e for e in jaxpr.eqns if e not in gone]
    read = {x for e in left for x in e.inputs if type(x) is not Lit}
    read.update(x for x in jaxpr.outs if type(x) is not Lit)
    results = [v for e in moved for v in e.out_binders if v in read]
    binders = [*consts, *results, *jaxpr.in_binders[n:]]
    smaller = Jaxpr(binders, left, jaxpr.outs, jaxpr.const_binders, jaxpr.span)
    added = [outside[v] for v in results]
    inputs = [*eqn.inputs[: start + n], *added, *eqn.inputs[start + n :]]
    params = {
        **eqn.params,
        param: inner.replace(jaxpr=smaller, interface=None),
        count: n + len(added),
    }
    return eqn.replace(inputs=inputs, params=_without_bookkeeping(eqn, params))


def _invariant(jaxpr: Jaxpr, consts: Sequence[Var]) -> list[JaxprEqn]:
    """Return the equations of a loop's jaxpr that compute the same in each iteration."""
    same: set[Any] = {*consts}
    found: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        variables = [x for x in eqn.inputs if type(x) is not Lit]
        if variables and same.issuperset(variables) and is_pure(eqn) and not _may_fail(eqn):
            found.append(eqn)
            same.update(eqn.out_binders)
    return found


_FAILING = frozenset({lax.while_call.primitive, lax.pure_callback.primitive})


def _may_fail(eqn: JaxprEqn) -> bool:
    """Whether an equation may not end, or may raise an error, at any depth; also because the value of a literal is not known."""
    inner = [e for c in sub_jaxprs(eqn) for e in all_eqns(c.jaxpr)]
    atoms = [*eqn.inputs, *(x for e in inner for x in e.inputs)]
    atoms += [x for c in sub_jaxprs(eqn) for x in c.jaxpr.outs]
    atoms += [x for e in inner for c in sub_jaxprs(e) for x in c.jaxpr.outs]
    unknown = any(type(x) is Lit and x.val is None for x in atoms)
    return unknown or any(e.primitive in _FAILING for e in (eqn, *inner))


def _without_bookkeeping(eqn: JaxprEqn, params: dict[str, Any]) -> dict[str, Any]:
    """Reset the bookkeeping params, which have an entry for each operand and are optional."""
    declared = eqn.primitive.params
    keys = [k for k in params if k in declared and declared[k].kind.is_bookkeeping]
    return {**params, **{k: declared[k].default for k in keys}}
