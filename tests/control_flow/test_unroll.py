"""Compiled scans take `unroll` steps in a turn, as JAX's do: the same values, and as many loops in the text."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from tests.control_flow.oracle import traced

C = np.linspace(-1, 1, 4, dtype=np.float32)


def _scan(length, unroll, reverse):
    def step(c, x):
        c = jnp.tanh(c * 0.9 + x)
        return c, (c.sum(), c * x)

    return lambda c, xs: jax.lax.scan(step, c, xs, length, reverse, unroll)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 7, True])
@pytest.mark.parametrize("length", [0, 1, 6, 7])
def test_turns_of_several_steps(length, unroll, reverse):
    f = _scan(length, unroll, reverse)
    xs = np.random.default_rng(length).normal(size=(length, 4)).astype(np.float32)
    program = traced(f, C, xs)
    compiled = jt.compile(program)
    in_jax = jax.jit(jaxpr_as_fun(jax.make_jaxpr(f)(C, xs)))
    for ours, theirs in zip(compiled(C, xs), in_jax(C, xs), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    loops = in_jax.lower(C, xs).as_text().count("stablehlo.while")
    assert str(compiled.stablehlo).count("stablehlo.while") == loops


def test_all_steps_at_once():
    f = _scan(6, 1, reverse=False)
    xs = np.ones((6, 4), np.float32)
    text = str(traced(f, C, xs)).replace("unroll=1", "unroll=0")
    program = jt.parse(text)
    assert "stablehlo.while" not in str(jt.lower(program))
    for ours, theirs in zip(jt.compile(program)(C, xs), jax.tree.leaves(f(C, xs)), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


@pytest.mark.parametrize("unroll", [1, 2, 4, 5])
def test_ordered_effects_keep_their_order(unroll, capfd):
    def step(c, x):
        jax.debug.print("{}", x, ordered=True)
        return c + x, None

    xs = np.arange(5, dtype=np.int32)
    program = traced(lambda c, xs: jax.lax.scan(step, c, xs, unroll=unroll), np.int32(0), xs)
    assert int(jt.compile(program)(np.int32(0), xs)[0]) == 10
    assert capfd.readouterr().out.split() == ["0", "1", "2", "3", "4"]


def test_a_negative_number_of_steps_in_a_turn():
    xs = np.ones((6, 4), np.float32)
    text = str(traced(_scan(6, 1, reverse=False), C, xs)).replace("unroll=1", "unroll=-2")
    with pytest.raises(jt.JaxprTypeError, match="scan: unroll=-2 is no number of steps"):
        jt.typecheck_jaxpr(jt.parse(text))


@pytest.mark.parametrize("unroll, loops", [(True, 0), (False, 1), (3, 1)])
def test_unroll_in_our_own_front_end(unroll, loops):
    def f(c, xs):
        return jt.scan(lambda c, x: (c + x, c * x), c, xs, unroll=unroll)

    xs = np.arange(24, dtype=np.float32).reshape(6, 4)
    program = jt.make_jaxpr(f)(C, xs)
    compiled = jt.compile(program)
    assert str(compiled.stablehlo).count("stablehlo.while") == loops
    for ours, theirs in zip(compiled(C, xs), jt.eval_jaxpr(program, [C, xs]), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
