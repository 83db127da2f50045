"""lift-consts and sink-consts: move constants of inner jaxprs out to the program, and back to where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.dce import prune_consts
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.makers.calls import CallImpl
from jaxprtool.passes.fold import literal_of
from jaxprtool.passes.inline import called
from jaxprtool.passes.registry import define_pass

__all__ = ["lift_consts", "sink_consts"]


def _param(eqn: JaxprEqn) -> str | None:
    """Return the param with the jaxpr that a call applies to its operands; None where an equation is no such call."""
    if called(eqn) is None:
        return None
    rule = impl_rules.find(eqn.primitive)
    assert isinstance(rule, CallImpl)
    several = sum(isinstance(v, ClosedJaxpr) for v in eqn.params.values()) > 1
    return None if several else rule.param


@define_pass("lift-consts", "bits types no-more-equations idempotent linear-time")
@deep
def lift_consts(program: ClosedJaxpr) -> ClosedJaxpr:
    """Make constants of the jaxprs of calls operands, so that the program holds them, each once."""
    return _lifted(program, {})


_Opened = tuple[ClosedJaxpr, Sequence[Any]]


def _lifted(program: ClosedJaxpr, done: dict[ClosedJaxpr, _Opened]) -> ClosedJaxpr:
    """Return the program with the constants of the calls in it as its own."""
    jaxpr = program.jaxpr
    binders: dict[int, Var] = {
        id(c): v for v, c in zip(jaxpr.const_binders, program.consts, strict=True) if c is not None
    }
    added: list[tuple[Var, Any]] = []
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        param = _param(eqn)
        if param is None:
            eqns.append(eqn)
            continue
        inner: ClosedJaxpr = eqn.params[param]
        open_call = done.get(inner)
        if open_call is None:
            open_call = done[inner] = _opened(_lifted(inner, done))
        body, values = open_call
        if body is inner:
            eqns.append(eqn)
            continue
        operands: list[Any] = []
        for v, c in zip(body.jaxpr.in_binders, values, strict=False):
            if id(c) not in binders:
                binders[id(c)] = Var(v.aval, v.name)
                added.append((binders[id(c)], c))
            operands.append(binders[id(c)])
        params = _with_more({**eqn.params, param: body}, len(operands), len(eqn.inputs))
        eqns.append(eqn.replace(inputs=[*operands, *eqn.inputs], params=params))
    if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        return program
    new = jaxpr.replace(eqns=eqns, const_binders=[*jaxpr.const_binders, *(v for v, _ in added)])
    return program.replace(jaxpr=new, consts=[*program.consts, *(c for _, c in added)])


def _opened(program: ClosedJaxpr) -> _Opened:
    """Return the program with its constants as its first arguments, and their values."""
    jaxpr = program.jaxpr
    if not program.consts or any(c is None for c in program.consts):
        return program, ()
    binders = [*jaxpr.const_binders, *jaxpr.in_binders]
    return ClosedJaxpr(Jaxpr(binders, jaxpr.eqns, jaxpr.outs, (), jaxpr.span)), program.consts


def _with_more(params: dict[str, Any], more: int, count: int) -> dict[str, Any]:
    """Return the params of a call for `more` operands in front of the `count` that it has."""
    new = dict(params)
    for key, usual in _EACH.items():
        value = params.get(key)
        if isinstance(value, tuple) and len(value) == count:
            new[key] = (usual,) * more + value
    return new


# Params of `jit` with an entry for each operand, and the default of that entry.
_EACH: dict[str, Any] = {"donated_invars": False, "in_layouts": None, "in_shardings": None}


@define_pass("sink-consts", "bits types no-more-equations idempotent linear-time")
@deep
def sink_consts(program: ClosedJaxpr) -> ClosedJaxpr:
    """Make constants that one call alone reads constants of its jaxpr, and scalars literals where they are read."""
    program = _with_literals(program)
    jaxpr = program.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.const_binders, program.consts, strict=True))
    readers: dict[Any, int] = {}
    for x in [*jaxpr.outs, *(x for e in jaxpr.eqns for x in e.inputs)]:
        if type(x) is not Lit and x in values:
            readers[x] = readers.get(x, 0) + 1
    eqns = [_closed_over(e, values, readers) for e in jaxpr.eqns]
    if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        return program
    return prune_consts(program.replace(jaxpr=jaxpr.replace(eqns=eqns)))


def _with_literals(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with literals in the place of scalar constants."""
    jaxpr = program.jaxpr
    pairs = zip(jaxpr.const_binders, program.consts, strict=True)
    literals: dict[Any, Any] = {v: x for v, c in pairs if (x := literal_of(c, v.aval)) is not None}
    if not literals:
        return program
    eqns = [e.replace(inputs=[literals.get(x, x) for x in e.inputs]) for e in jaxpr.eqns]
    outs = [literals.get(x, x) for x in jaxpr.outs]
    return prune_consts(program.replace(jaxpr=jaxpr.replace(eqns=eqns, outs=outs)))


def _closed_over(eqn: JaxprEqn, values: dict[Any, Any], readers: dict[Any, int]) -> JaxprEqn:
    """Make those constants that only this call reads constants of its jaxpr; other equations stay."""
    param = _param(eqn)
    if param is None:
        return eqn
    sunk = [i for i, x in enumerate(eqn.inputs) if readers.get(x) == 1 and values[x] is not None]
    if not sunk:
        return eqn
    inner: ClosedJaxpr = eqn.params[param]
    ins = inner.jaxpr.in_binders
    left = [i for i in range(len(ins)) if i not in sunk]
    binders = [*inner.jaxpr.const_binders, *(ins[i] for i in sunk)]
    body = inner.jaxpr.replace(in_binders=[ins[i] for i in left], const_binders=binders)
    consts = [*inner.consts, *(values[eqn.inputs[i]] for i in sunk)]
    params = {**eqn.params, param: sink_consts(ClosedJaxpr(body, consts))}
    for key in _EACH.keys() & params.keys():
        if isinstance(params[key], tuple) and len(params[key]) == len(ins):
            params[key] = tuple([params[key][i] for i in left])
    return eqn.replace(inputs=[eqn.inputs[i] for i in left], params=params)
