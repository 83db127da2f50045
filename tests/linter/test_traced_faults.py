"""Rules of derivatives and of sums find a fault as functions of JAX spell it, and nothing in what only looks like it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.driver.lint import lint

BF16, F32 = jnp.bfloat16, jnp.float32
X = np.ones((3, 3), np.float32)
LONG, ROWS = jnp.ones(1000, BF16), jnp.ones((1000, 4), BF16)
AT = np.zeros(1000, np.int32)


def loop(f, start=0):
    """The scan that carries f(carry, element) from turn to turn."""
    return lambda xs: lax.scan(lambda c, x: (f(c, x), None), BF16(start), xs)[0]


FOUND = {
    "infinite-derivative": [
        (lambda x: x.std(0), X),
        (lambda x: jnp.sqrt(x.var(ddof=1)), X),
        (lambda x: (x - x.mean()) * lax.rsqrt(x.var()), X),
        (lambda x: jnp.sqrt(jnp.einsum("ij,ij->i", x, x)), X),
        (lambda x: jnp.sqrt((x**2).sum() / jnp.exp(x).sum()), X),
        (lambda x: jnp.sqrt((x**2).sum() + 0.0), X),
    ],
    "zero-division": [
        (lambda x: (x - x.mean(0)) / x.std(0), X),
        (lambda x: x / jnp.sqrt(jnp.einsum("ij,ij->i", x, x))[:, None], X),
    ],
    "where-nan-gradient": [
        (lambda x: jnp.where(jnp.abs(x) < 1, jnp.arcsin(x), 0.0), X),
        (lambda x: jnp.where(x * x < 1, jnp.arccos(x), 0.0), X),
        (lambda x: jnp.where(x**2 >= 1, 0.0, jnp.arctanh(x)), X),
    ],
    "low-precision-sum": [
        (loop(lambda c, x: c + x), LONG),
        (loop(lambda c, x: x * c, 1), LONG),
        (loop(lambda c, x: (c.astype(F32) + x.astype(F32)).astype(BF16)), LONG),
        (lambda x: lax.fori_loop(0, 1000, lambda i, c: c + x[i], BF16(0)), LONG),
        (lambda x: jax.ops.segment_sum(x, AT, 3), ROWS),
        (lambda w: jax.grad(lambda w: w[AT].astype(F32).sum())(w), ROWS[:3]),
    ],
}
QUIET = {
    "infinite-derivative": [
        (lambda x: jnp.sqrt(x.var() + 1e-6), X),
        (lambda x: jnp.sqrt(jnp.einsum("ij,ji->", x, x)), X),  # no sum of squares
        (lambda x: jnp.sqrt(jnp.einsum("ij,kj->ik", x, x)), X),
    ],
    "zero-division": [
        (lambda x: (x - x.mean(0)) / (x.std(0) + 1e-6), X),
        (lambda x: (x - x.mean(0)) / 3, X),
    ],
    "where-nan-gradient": [
        (lambda x: jnp.where(jnp.abs(x) < 0.9, jnp.arctanh(jnp.where(x < 0.9, x, 0)), 0.0), X),
        (lambda x: jnp.where(x * x < 1, jnp.exp(x), 0.0), X),
    ],
    "low-precision-sum": [
        (loop(jnp.maximum), LONG),
        (loop(lambda c, x: c * BF16(0.9) + x), LONG),  # it forgets
        (loop(lambda c, x: c + x), LONG[:100]),
        (lambda x: lax.scan(lambda c, y: (c + y.astype(F32), None), F32(0), x)[0], LONG),
        (lambda x: jax.ops.segment_sum(x, AT, 1000), ROWS),
    ],
}


def cases(table):
    return [(code, i) for code, functions in table.items() for i in range(len(functions))]


def codes(f, x):
    return {c.code for c in lint({"": jt.trace(f, x)}).findings}


@pytest.mark.parametrize(("code", "i"), cases(FOUND))
def test_found(code, i):
    f, x = FOUND[code][i]
    assert code in codes(f, x)
    assert code in codes(jax.jit(f), x)


@pytest.mark.parametrize(("code", "i"), cases(QUIET))
def test_quiet(code, i):
    f, x = QUIET[code][i]
    assert code not in codes(f, x)


def test_what_a_checkpoint_draws_again_is_no_reuse():
    def drop(key, x):
        return jnp.sin(x) * jax.random.uniform(key, x.shape)

    def loss(x, key):
        keys = jax.random.split(key, 3)
        x = lax.scan(lambda c, k: (jax.checkpoint(drop)(k, c), None), x, keys[:2])[0]
        return jax.checkpoint(drop)(keys[2], x).sum()

    derived = jt.trace(jax.grad(loss), X, jax.random.key(0))
    assert not lint({"": derived}, select=("keys",)).findings
