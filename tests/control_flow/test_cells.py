"""One name for each cell, until it is given up: what else `check` refuses, as JAX does when it traces, checks or compiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.core import JaxprTypeError, check_jaxpr

import jaxprtool as jt

X = np.arange(3, dtype=np.float32)
NEW = "r:Ref{f32[3]} = new_ref[kind=None memory_space=None]"
READ = "b:f32[3] <- r[...]"


def _call(inner: str, operands: str, results: str = "") -> str:
    return (
        f"{results} = jit[name=f jaxpr={inner}] {operands}"
        if results
        else (f"jit[name=f jaxpr={inner}] {operands}")
    )


def _loop(inner: str, operands: str, results: str = "", carry: int = 0) -> str:
    params = f"length=2 num_carry={carry} num_consts={1 - carry} reverse=False unroll=1"
    return (f"{results} = " if results else "") + f"scan[jaxpr={inner} {params}] {operands}"


def _program(*lines: str, out: str = "b") -> str:
    body = "\n    ".join([f"{NEW} a", *lines])
    return f"{{ lambda ; a:f32[3]. let\n    {body}\n  in ({out},) }}"


GIVEN_BACK = "{ lambda ; q:Ref{f32[3]}. let  in (q,) }"
FROZEN = "{ lambda ; q:Ref{f32[3]}. let c:f32[3] = freeze q in (c,) }"
FROZEN_IN_VAIN = "{ lambda ; q:Ref{f32[3]}. let c:f32[3] = freeze q in () }"
TWO = "{ lambda ; q:Ref{f32[3]} p:Ref{f32[3]}. let c:f32[] <- q[0]; p[1] <- c in () }"
# Each is refused by JAX's checker too.
RETURNED = {
    "the program": _program(out="r"),
    "an argument": "{ lambda ; r:Ref{f32[3]}. let  in (r,) }",
    "a call": _program(
        _call(f"{{ lambda ; a:f32[3]. let {NEW} a in (r,) }}", "a", "s:Ref{f32[3]}"),
        "b:f32[3] <- s[...]",
    ),
    "the argument of a call": _program(_call(GIVEN_BACK, "r", "s:Ref{f32[3]}"), READ),
    "a loop": _program(_loop(GIVEN_BACK, "r", "s:Ref{f32[3]}", carry=1), "b:f32[3] <- s[...]"),
    "one that was frozen": _program("b:f32[3] = freeze r", out="r"),
}
ALIASED = {
    "a call": _program(_call(TWO, "r r"), READ),
    "another operation": _program("s:Ref{f32[3]} = optimization_barrier r", READ),
}
DEAD = {
    "read": _program("c:f32[3] = freeze r", READ),
    "frozen": _program("c:f32[3] = freeze r", "b:f32[3] = freeze r"),
    "passed on": _program("c:f32[3] = freeze r", _call(FROZEN, "r", "b:f32[3]")),
    "after a call": _program(_call(FROZEN, "r", "c:f32[3]"), READ),
    "after calls in calls": _program(
        _call(
            "{ lambda ; q:Ref{f32[3]}. let " + _call(FROZEN, "q", "c:f32[3]") + " in (c,) }",
            "r",
            "c:f32[3]",
        ),
        READ,
    ),
    "in each turn": _program(_loop(FROZEN_IN_VAIN, "r"), "b:f32[3] = neg a"),
}
ALLOWED = {
    "given up by a call": _program(_call(FROZEN, "r", "b:f32[3]")),
    "two cells": _program(f"{NEW.replace('r:', 's:')} a", _call(TWO, "r s"), READ),
    "a slice in each turn": _program(
        "scan[jaxpr={ lambda ; q:Ref{f32[]}. let q[...] <- 2.0:f32[] in () } "
        "length=3 num_carry=0 num_consts=0 reverse=False unroll=1] r",
        READ,
    ),
    "in each turn a new one": _program(
        _loop(
            "{ lambda ; a:f32[3]. let " + NEW + " a; c:f32[3] = freeze r in (c,) }",
            "a",
            "c:f32[3]",
            carry=1,
        ),
        READ,
    ),
}


def _codes(text: str) -> set[str]:
    try:
        jt.typecheck_jaxpr(jt.parse(text))
    except jt.JaxprTypeError as e:
        return {d.code for d in e.diagnostics}
    return set()


@pytest.mark.parametrize("name", RETURNED)
def test_returned(name):
    assert "returned-reference" in _codes(RETURNED[name])
    with pytest.raises(JaxprTypeError):
        check_jaxpr(jt.to_jax(jt.parse(RETURNED[name])).jaxpr)


@pytest.mark.parametrize("name", ALIASED)
def test_aliased(name):
    assert "aliased-reference" in _codes(ALIASED[name])


@pytest.mark.parametrize("name", DEAD)
def test_dead(name):
    """What JAX traces here, its compiler does not survive."""
    assert _codes(DEAD[name]) == {"dead-reference"}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name):
    """What is well-typed means the same with cells (NumPy) and with values in their place."""
    program = jt.parse(ALLOWED[name])
    assert _codes(ALLOWED[name]) == set()
    check_jaxpr(jt.to_jax(program).jaxpr)
    ours, pure = (jt.eval_jaxpr(p, [X]) for p in (program, jt.discharge(program)))
    np.testing.assert_array_equal(ours[0], pure[0])


def test_jax_refuses():
    """The functions that JAX does not trace, whose jaxprs would be those above."""

    def twice(x):
        r = jax.new_ref(x)
        jax.jit(lambda p, q: p.__setitem__(0, q[1]))(r, r)
        return r[...]

    def carried(x):
        r = jax.new_ref(x)
        jax.lax.fori_loop(0, 3, lambda i, c: c, r)
        return r[...]

    for f in (jax.new_ref, lambda x: jax.jit(jax.new_ref)(x)[...], twice, carried):
        with pytest.raises(ValueError, match="mutable array"):
            jax.make_jaxpr(f)(jnp.asarray(X))
