"""Wrap programs in calls, branches, loops and functions with derivative rules of their own; the
result is mostly well-typed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.primitive import primitive_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ops.calls import jit_call
from jaxprtool.ops.control_flow import cond_call, scan_call, while_call
from jaxprtool.ops.custom_functions import custom_jvp_call, custom_vjp_call
from jaxprtool.ops.remat import remat_call
from jaxprtool.ops.shape import broadcast_in_dim

__all__ = ["WRAPS", "wrapped"]

Wrap = Callable[[random.Random, ClosedJaxpr], ClosedJaxpr]


def _around(
    primitive: Any, program: ClosedJaxpr, before: list[Any], outs: list[Any], **params: Any
) -> ClosedJaxpr:
    """Return a program of one equation, whose last operands have the types of the arguments of `program`."""
    ins = [Var(v.aval) for v in program.jaxpr.in_binders]
    binders = [Var(a) for a in outs]
    eqn = _eqn(primitive, [*before, *ins], params, binders)
    taken = [x for x in before if isinstance(x, Var)]
    return ClosedJaxpr(Jaxpr([*taken, *ins], [eqn], [*binders], []), [])


def _eqn(op: Any, ins: list[Any], params: dict[str, Any], outs: list[Any]) -> JaxprEqn:
    primitive = primitive_of(op)
    return JaxprEqn(primitive, ins, {**primitive.defaults, **params}, outs)


def _closed(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with its constants as arguments."""
    jaxpr = program.jaxpr
    return ClosedJaxpr(Jaxpr(jaxpr.all_binders, jaxpr.eqns, jaxpr.outs, []), [])


def _results(program: ClosedJaxpr) -> list[Any]:
    return [x.aval for x in program.jaxpr.outs]


def _identity(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr with the types of `program` that returns, for each result, an argument of that
    type if there is one.
    """
    ins = [Var(v.aval) for v in program.jaxpr.in_binders]
    outs = [next((v for v in ins if v.aval is aval), None) for aval in _results(program)]
    return _giving(ins, outs, _results(program))


def _giving(ins: list[Var], outs: Sequence[Var | None], avals: Sequence[Any]) -> ClosedJaxpr:
    """Return the jaxpr (ins) -> outs, where None stands for zeros of a type.

    Zeros are broadcast from a scalar, since a literal of higher rank has no value in a text.
    """
    eqns: list[JaxprEqn] = []
    given: list[Any] = []
    for v, aval in zip(outs, avals, strict=True):
        if v is not None:
            given.append(v)
        elif not isinstance(aval, ShapedArray) or aval.dtype.kind not in _ZEROS:
            given.append(Lit(None, aval))
        else:
            zero = Lit(_ZEROS[aval.dtype.kind], ShapedArray((), aval.dtype))
            made = Var(aval)
            if aval.shape:
                params = {"shape": aval.shape, "broadcast_dimensions": ()}
                eqns.append(_eqn(broadcast_in_dim, [zero], params, [made]))
            given.append(made if aval.shape else zero)
    return ClosedJaxpr(Jaxpr(ins, eqns, given, []), [])


_ZEROS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def _jit(_rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    return _around(jit_call, program, [], _results(program), jaxpr=program, name="f")


def _remat(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    params = {"jaxpr": program, "prevent_cse": rng.random() < 0.5, "differentiated": False}
    return _around(remat_call, program, [], _results(program), policy=None, **params)


def _cond(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    branches = [program, rng.choice((program, _identity(program)))]
    rng.shuffle(branches)
    index = Var(ShapedArray((), INT32))
    return _around(cond_call, program, [index], _results(program), branches=tuple(branches))


def _scan(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Wrap in a scan whose carry is the first arguments, as many as have the types of the first results."""
    ins, outs = [v.aval for v in program.jaxpr.in_binders], _results(program)
    num_consts = rng.randint(0, len(ins))
    num_carry = 0
    for a, b in zip(ins[num_consts:], outs, strict=False):
        num_carry += a is b
        if a is not b:
            break
    length, whole = rng.choice((0, 1, 2, 3)), num_consts + num_carry
    binders = [Var(a if i < whole else _longer(a, length)) for i, a in enumerate(ins)]
    results = [Var(a if i < num_carry else _longer(a, length)) for i, a in enumerate(outs)]
    params = {
        "jaxpr": program,
        "length": length,
        "num_carry": num_carry,
        "num_consts": num_consts,
        "reverse": rng.random() < 0.3,
        "unroll": rng.choice((1, 1, 1, 2)),
    }
    eqn = _eqn(scan_call, [*binders], params, results)
    return ClosedJaxpr(Jaxpr(binders, [eqn], [*results], []), [])


def _longer(aval: Any, length: int) -> Any:
    try:
        return aval.update(shape=(length, *aval.shape))
    except (AttributeError, JaxprToolError):
        return aval


def _while(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Wrap in a loop whose condition is a boolean of the carry, or false; the results of its body form the carry."""
    ins, left = program.jaxpr.in_binders, [*program.jaxpr.outs]
    nconsts = rng.randint(0, len(ins))
    outs = []
    for v in ins[nconsts:]:
        found = next((x for x in left if x.aval is v.aval), None)
        outs.append(v if found is None else left.pop(left.index(found)))
    body = ClosedJaxpr(Jaxpr(ins, program.jaxpr.eqns, outs, []), [])
    carry = [Var(v.aval) for v in ins[nconsts:]]
    flags = [v for v in carry if v.aval is ShapedArray((), "bool")]
    going = flags[0] if flags and rng.random() < 0.1 else Lit(False, ShapedArray((), "bool"))
    params = {
        "body_jaxpr": body,
        "cond_jaxpr": ClosedJaxpr(Jaxpr(carry, [], [going], []), []),
        "body_nconsts": nconsts,
        "cond_nconsts": 0,
    }
    return _around(while_call, program, [], [v.aval for v in carry], **params)


def _inexact(avals: list[Any]) -> list[Any]:
    return [a for a in avals if isinstance(a, ShapedArray) and a.dtype.kind in "fc"]


def _rule(rng: random.Random, ins: list[Any], outs: list[Any]) -> ClosedJaxpr | None:
    """Return a jaxpr of these types, sometimes with an argument or result too few, too many or of
    another type; or None.
    """
    ins, outs = [*ins], [*outs]
    for avals in (ins, outs):
        pick = rng.random()
        if avals and pick < 0.05:
            del avals[rng.randrange(len(avals))]
        elif pick < 0.1:
            avals.insert(rng.randint(0, len(avals)), ShapedArray((2,), "float32"))
        elif avals and pick < 0.15:
            avals[rng.randrange(len(avals))] = ShapedArray((), "int32")
    if rng.random() < 0.05:
        return None
    binders = [Var(a) for a in ins]
    given = [rng.choice([v for v in binders if v.aval is a] or [None]) for a in outs]
    return _giving(binders, given, outs)


def _custom_jvp(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    ins, outs = [v.aval for v in program.jaxpr.in_binders], _results(program)
    n = rng.choice((0, 0, 0, 1))
    rule = _rule(rng, ins + _inexact(ins[n:]), outs + _inexact(outs))
    params = {"call_jaxpr": program, "name": "f", "jvp": "jvp", "symbolic_zeros": False}
    return _around(custom_jvp_call, program, [], outs, num_consts=n, jvp_jaxpr=rule, **params)


def _custom_vjp(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    ins, outs = [v.aval for v in program.jaxpr.in_binders], _results(program)
    n = rng.choice((0, 0, 0, 1))
    residuals = [a for a in ins if rng.random() < 0.5]
    fwd = _rule(rng, ins, residuals + outs)
    bwd = _rule(rng, residuals + _inexact(outs), _inexact(ins[n:]))
    params = {"call_jaxpr": program, "name": "f", "fwd": "fwd", "bwd": "bwd"}
    rules = {"fwd_jaxpr": fwd, "bwd_jaxpr": bwd, "num_consts": n, "symbolic_zeros": False}
    return _around(custom_vjp_call, program, [], outs, **rules, **params)


WRAPS: dict[str, Wrap] = {
    "jit": _jit,
    "remat2": _remat,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
}


def wrapped(
    rng: random.Random, program: ClosedJaxpr, wraps: Sequence[Wrap] = tuple(WRAPS.values())
) -> ClosedJaxpr:
    """Return a program of one equation with the given one in its params, made by one of `wraps`."""
    return rng.choice(wraps)(rng, _closed(program))
