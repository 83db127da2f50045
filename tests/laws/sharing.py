"""Programs of n levels, each of which uses the one below it twice, for every primitive that holds jaxprs.

Written out, such a program has 2^n equations; as text, and as objects, about 3n.
"""

from __future__ import annotations

from collections.abc import Callable

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.params import Record, Word

__all__ = ["LEVELS", "program"]

X = jt.parse("{ lambda ; a:f32[3]. let in (a,) }").in_avals[0]


def _staged(f, *avals) -> ClosedJaxpr:
    return stage(f, avals)


class Level:
    """A function of f32[3], as jaxprs: its body, and its derivative rules where the text gives them."""

    def __init__(self, body, jvp=None, fwd=None, bwd=None):
        self.body, self.jvp, self.fwd, self.bwd = body, jvp, fwd, bwd


def _bottom() -> Level:
    def jvp(x, t):
        return [lax.cos(x), lax.neg(lax.mul(t, lax.sin(x)))]

    return Level(
        _staged(lambda x: [lax.cos(x)], X),
        _staged(jvp, X, X),
        _staged(lambda x: [lax.neg(lax.sin(x)), lax.cos(x)], X),
        _staged(lambda c, ct: [lax.mul(c, ct)], X, X),
    )


def _mixed(x, y):
    """A value between -1 and 1 that depends on both, so that no derivative vanishes."""
    return lax.mul(lax.add(x, lax.mul(y, y)), 0.5)


def _twice(call: Callable) -> Callable[[Level], Level]:
    """The level above one that is called by `call(level, x)`."""

    def level(last: Level) -> Level:
        def body(x):
            y = call(last, x)
            return [_mixed(x, call(last, y))]

        return Level(_staged(body, X))

    return level


def _call(op, param: str, **params):
    return _twice(lambda f, x: op(x, **{param: f.body}, **params)[0])


def _custom_jvp(f: Level) -> Level:
    def use(x):
        return lax.custom_jvp_call(x, call_jaxpr=f.body, name="f", jvp="jvp", jvp_jaxpr=f.jvp)[0]

    def jvp(x, t):
        y, dy = lax.jit_call(x, t, jaxpr=f.jvp, name="jvp")
        return lax.jit_call(y, dy, jaxpr=f.jvp, name="jvp")

    return Level(_staged(lambda x: [use(use(x))], X), _staged(jvp, X, X))


def _custom_jvp_of_calls(f: Level) -> Level:
    """A rule that calls the function below, and so its rule when it is differentiated again."""

    def use(x):
        return lax.custom_jvp_call(x, call_jaxpr=f.body, name="f", jvp="jvp", jvp_jaxpr=f.jvp)[0]

    def jvp(x, t):
        return [use(use(x)), lax.mul(t, use(x))]

    return Level(_staged(lambda x: [use(use(x))], X), _staged(jvp, X, X))


def _custom_vjp(f: Level) -> Level:
    def use(x):
        rules = {"fwd_jaxpr": f.fwd, "bwd_jaxpr": f.bwd}
        return lax.custom_vjp_call(x, call_jaxpr=f.body, name="f", fwd="f", bwd="b", **rules)[0]

    def fwd(x):
        return [use(x), use(use(x))]

    def bwd(y, ct):
        return [lax.mul(use(y), use(ct))]

    return Level(_staged(lambda x: [use(use(x))], X), None, _staged(fwd, X), _staged(bwd, X, X))


def _scan(f: Level) -> Level:
    step = _staged(lambda c: [lax.jit_call(c, jaxpr=f.body, name="f")[0]], X)

    def use(x, body):
        return lax.scan_call(
            x, jaxpr=body, length=2, num_carry=1, num_consts=0, reverse=False, unroll=1
        )[0]

    return Level(_staged(lambda x: [_mixed(use(x, step), use(use(x, f.body), f.body))], X))


def _cond(f: Level) -> Level:
    other = _bottom().body

    def use(x):
        index = lax.convert_element_type(lax.reduce_sum(x, axes=(0,)), new_dtype=INT32)
        return lax.cond_call(index, x, branches=(f.body, f.body, other))[0]

    return Level(_staged(lambda x: [_mixed(x, use(use(x)))], X))


def _while(f: Level) -> Level:
    holds = _staged(lambda x: [lax.lt(lax.reduce_sum(x, axes=(0,)), 1.0)], X)

    def use(x):
        counts = {"cond_nconsts": 0, "body_nconsts": 0}
        return lax.while_call(x, cond_jaxpr=holds, body_jaxpr=f.body, **counts)[0]

    return Level(_staged(lambda x: [_mixed(x, use(use(x)))], X))


def _while_condition(f: Level) -> Level:
    """The levels below are in the condition."""

    def holds(x):
        return [lax.lt(lax.reduce_sum(lax.jit_call(x, jaxpr=f.body, name="f")[0], axes=(0,)), 1.0)]

    def use(x):
        return lax.while_call(
            x,
            cond_jaxpr=_staged(holds, X),
            body_jaxpr=_bottom().body,
            cond_nconsts=0,
            body_nconsts=0,
        )[0]

    return Level(_staged(lambda x: [_mixed(x, use(use(x)))], X))


def _linear_solve(f: Level) -> Level:
    """The levels below are in the solver."""
    ident = _staged(lambda x: [lax.mul(x, 2.0)], X)
    solve = _staged(lambda b: [lax.jit_call(b, jaxpr=f.body, name="f")[0]], X)
    jaxprs = Record(
        "_LinearSolveTuple", (), matvec=ident, vecmat=ident, solve=solve, transpose_solve=solve
    )
    lengths = Record("_LinearSolveTuple", (), matvec=0, vecmat=0, solve=0, transpose_solve=0)

    def use(x):
        return lax.linear_solve(x, const_lengths=lengths, jaxprs=jaxprs)[0]

    return Level(_staged(lambda x: [_mixed(x, use(use(x)))], X))


def _run_state(f: Level) -> Level:
    body = jt.parse(
        "{ lambda ; r:Ref{f32[3]}. let a:f32[3] <- r[:]; b:f32[3] = neg a; r[:] <- b in () }"
    )
    old, call = body.jaxpr.eqns[1], lax.jit_call.primitive
    eqn = JaxprEqn(call, old.inputs, {**call.defaults, "jaxpr": f.body}, old.out_binders)
    eqns = [body.jaxpr.eqns[0], eqn, body.jaxpr.eqns[2]]
    body = ClosedJaxpr(Jaxpr(body.jaxpr.in_binders, eqns, []))

    def use(x):
        return lax.run_state(x, jaxpr=body, which_linear=(False,))[0]

    return Level(_staged(lambda x: [_mixed(x, use(use(x)))], X))


LEVELS: dict[str, Callable[[Level], Level]] = {
    "jit": _call(lax.jit_call, "jaxpr", name="f"),
    "closed_call": _call(lax.closed_call, "call_jaxpr"),
    "core_call": _call(lax.core_call, "call_jaxpr"),
    "call": _call(lax.call, "call_jaxpr"),
    "compute_on": _call(
        lax.compute_on, "jaxpr", compute_type="device", out_memory_spaces=(MEMORY.word("Device"),)
    ),
    "xla_metadata_call": _call(lax.xla_metadata_call, "jaxpr", scheduling_group="g"),
    "named_call": _call(lax.named_call, "call_jaxpr", name="f"),
    "remat2": _call(lax.remat_call, "jaxpr"),
    "remat2 that saves all": _call(lax.remat_call, "jaxpr", policy=Word("everything")),
    "composite": _call(lax.composite, "jaxpr", name="my.f", attributes=(), version=0),
    "custom_vmap_call": _call(lax.custom_vmap_call, "call"),
    "remat_opt": _call(lax.remat_opt, "fwd_jaxpr", num_consts=0, num_res=0),
    "custom_jvp_call": _custom_jvp,
    "custom_jvp_call of calls": _custom_jvp_of_calls,
    "custom_vjp_call": _custom_vjp,
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "while condition": _while_condition,
    "custom_linear_solve": _linear_solve,
    "run_state": _run_state,
}


def program(kind: str, n: int) -> ClosedJaxpr:
    """f32[3] -> f32[]: n levels of a primitive, and a sum."""
    level = _bottom()
    for _ in range(n):
        level = LEVELS[kind](level)
    top = level

    def total(x):
        return [lax.reduce_sum(lax.jit_call(x, jaxpr=top.body, name="top")[0], axes=(0,))]

    return _staged(total, X)
