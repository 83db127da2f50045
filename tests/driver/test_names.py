"""The verbs as functions of Python: of a program, and of a function of JAX with its arguments."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt

X = np.array([0.5, 1.0, 1.5], np.float32)


def f(x):
    y = jnp.sin(x) ** 2 + 0.0 * jnp.cos(x)
    return y.sum()


VERBS = {
    "hash": (jt.hash, lambda a, b: a == b),
    "cost": (jt.cost, lambda a, b: a.total == b.total),
    "stats": (jt.stats, lambda a, b: a.json()["equations"] == b.json()["equations"]),
    "optimize": (
        lambda p, *xs: jt.optimize(p, *xs, passes="dce"),
        lambda a, b: jt.diff(a, b).equal,
    ),
    "lower": (jt.lower, lambda a, b: str(a) == str(b)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_with_its_arguments_is_taken_for_its_program(verb):
    call, same = VERBS[verb]
    program = jt.trace(f, X)
    assert same(call(program), call(f, X))


def test_verbs_that_take_values():
    program = jt.trace(f, X)
    assert not jt.blame(program, X).found and not jt.blame(f, X).found
    assert jt.compare(program, program, X).equal and jt.compare(f, f, X).equal
    assert jt.diff(program, jt.trace(f, X)).equal


def test_passes_may_follow_a_program():
    program = jt.trace(f, X)
    assert jt.optimize is jt.opt and jt.hash_program is jt.hash
    assert jt.diff(jt.opt(program, "simplify,dce"), jt.opt(program, passes="simplify,dce")).equal
    assert len(jt.opt(program, "strip").eqns) == len(program.eqns)


@pytest.mark.parametrize("call", [jt.hash, jt.optimize, jt.cost], ids=["hash", "optimize", "cost"])
def test_what_is_no_program_is_said(call):
    with pytest.raises(jt.UsageError, match="neither a program nor a function: int"):
        call(3)


def test_passes_that_there_are_not():
    with pytest.raises(jt.UsageError):
        jt.optimize(jt.trace(f, X), "no-such-pass")
