"""blame of a loop says what it says where each step is followed by itself, whatever begins, moves or is dropped in which step."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import flow

N, STEPS = 6, 200
OPERATIONS = [
    lambda c, x: jnp.log(c),
    lambda c, x: jnp.sqrt(c - x),
    lambda c, x: jnp.where(x > 0, c, jnp.sin(c)),
    lambda c, x: jnp.where(c > 0, c, x),
    lambda c, x: jnp.maximum(c, x),
    lambda c, x: c * x / (x - x[0]),
    lambda c, x: jnp.roll(c, 1) + x,
    lambda c, x: c[jnp.argsort(x)],
    lambda c, x: jnp.nan_to_num(c) + x,
    lambda c, x: jax.lax.cond(x[0] > 0, jnp.exp, lambda c: c * 2, c),
    lambda c, x: jnp.where(jnp.isnan(c), x, c),
    lambda c, x: c @ jnp.outer(x, x),
    lambda c, x: jnp.cumsum(c),
    lambda c, x: jnp.sort(c),
    lambda c, x: c.at[1].set(x[2]),
    lambda c, x: jax.lax.dynamic_update_slice(c, jnp.log(x[:1]), (jnp.argmax(x),)),
    lambda c, x: c - c.max(),
    lambda c, x: jax.lax.scan(lambda c, y: (jnp.where(y > c, c, jnp.cos(c)), y), c, x[:3])[0],
]
SEEDS = [12, 16, 25, 27, 28, 41, 54, 63, 87, 90, 100, 135, 141, 200, 201, 202]


def looped(seed):
    rng = random.Random(seed)
    chain = [rng.choice(OPERATIONS) for _ in range(rng.randrange(2, 6))]

    def step(c, x):
        for operation in chain:
            c = operation(c, x)
        return c, (c[0], c.sum(), c > 0)

    def whiled(c, xs):
        state = jax.lax.fori_loop(0, STEPS, lambda i, c: step(c, xs[i])[0], c)
        return state, state.sum()

    return whiled if seed % 4 == 0 else lambda c, xs: jax.lax.scan(step, c, xs)


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_together_and_one_by_one(seed, monkeypatch):
    args = np.linspace(-1, 2, N).astype("f"), np.random.default_rng(1).normal(size=(STEPS, N))
    args = args[0], args[1].astype("f")
    program = jt.from_jax(jax.make_jaxpr(looped(seed))(*args))
    for sought in ({}, {"nan": True}, {"above": 3.0}):
        together = jt.blame(program, *args, **sought).json()
        with monkeypatch.context() as patched:
            patched.setattr(flow, "FEW", 10**9)
            assert jt.blame(program, *args, **sought).json() == together


def test_elements_that_begin_again_in_a_later_step():
    def f(x, scales, resets):
        def step(c, at):
            scale, reset = at
            return jnp.where(reset, 1.0, c) / scale, None

        c, _ = jax.lax.scan(step, jnp.log(x), (scales, resets))
        return c[0], c[1]

    resets = np.array([[1, 0], [1, 0], [0, 0], [1, 0]], bool)
    scales = np.array([[0, 1], [1, 1], [1, 1], [0, 1]], np.float32)
    found = jt.blame(f, np.full(2, -1, np.float32), scales, resets).json()
    first = [output["chain"][0]["primitive"] for output in found["outputs"]]
    assert first == ["div", "log"]
