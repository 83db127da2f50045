"""Functions whose jaxprs, as real JAX prints them, show every shape of text."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

VECTOR = np.arange(3.0, dtype=np.float32)
MATRIX = np.ones((3, 3), np.float32)


@jax.custom_jvp
def smooth(x):
    return jnp.sin(x)


smooth.defjvp(lambda primals, tangents: (smooth(*primals), jnp.cos(primals[0]) * tangents[0]))


@jax.custom_vjp
def clipped(x):
    return x * 2.0


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (ct * x,))


@jax.jit
def helper(x):
    return jnp.where(x > 0, x, -x)


def twice(x):
    return helper(helper(x) * 2.0)


def many_equations(x):
    for _ in range(300):
        x = jnp.sin(x)
    return x


def large_inner(x):
    @jax.jit
    def inner(y):
        for _ in range(7):
            y = jnp.sin(y) * 2.0
        return y

    return inner(x)


def wide(*xs):
    return tuple(x + 1.0 for x in xs)


def loop(x):
    def body(i, carry):
        return carry * i

    return lax.fori_loop(0, 5, body, x)


def scanned(x):
    return lax.scan(lambda c, a: (c + a, c * a), jnp.float32(0), x)


def branches(i, x):
    return lax.switch(i, [jnp.sin, lambda y: jnp.cos(y) * 2.0, lambda y: y], x)


def constants(x):
    return x + np.arange(3, dtype=np.float32) + jax.jit(lambda y: y * MATRIX[0])(x)


def dropped(x):
    q, r = jnp.linalg.qr(x)
    del r
    return q


def mutated(x):
    ref = jax.new_ref(x)
    ref[0] = ref[1] * 2.0
    ref[...] += x
    return ref[...]


def literals(x):
    return x * 1e-30 + jnp.float32(np.inf), x.astype(bool) | True, x.astype(complex) * (1 + 2j)


def solved(x):
    """Solvers inside a solver, the same ones several times, with calls of one function in them."""

    def within(solve, b):
        return lax.custom_linear_solve(lambda v: 2.0 * v, b, solve, solve)

    def inner(mv, b):
        return within(lambda _, c: helper(helper(c)), b) + mv(b)

    return within(inner, x) + within(inner, jnp.sin(x))


def loss(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.mean(x**2)


PARAMS = [(MATRIX, VECTOR)] * 3
CASES = {
    "twice": (twice, VECTOR),
    "many_equations": (many_equations, VECTOR),
    "large_inner": (large_inner, VECTOR),
    "wide": (wide, *[VECTOR] * 40),
    "loop": (loop, VECTOR),
    "scanned": (scanned, VECTOR),
    "branches": (branches, 1, VECTOR),
    "constants": (constants, VECTOR),
    "dropped": (dropped, MATRIX),
    "mutated": (mutated, VECTOR),
    "literals": (literals, VECTOR),
    "no_inputs": (lambda: jnp.zeros(3),),
    "no_equations": (lambda x: (x, 1.0), VECTOR),
    "custom_jvp": (lambda x: smooth(x) + smooth(x), VECTOR),
    "custom_vjp": (lambda x: clipped(x), VECTOR),
    "gradient": (jax.grad(loss), PARAMS, VECTOR),
    "batched": (jax.vmap(functools.partial(loss, PARAMS)), MATRIX),
    "random": (lambda k: jax.random.normal(jax.random.split(k)[0], (3,)), jax.random.key(0)),
    "gather": (lambda x, i: x[i].at[0].set(2.0), VECTOR, np.array([1, 0])),
    "sorted": (lambda x: jnp.sort(x)[::2], VECTOR),
    "solve": (lambda a, b: jnp.linalg.solve(a, b), MATRIX, VECTOR),
    "solved": (solved, VECTOR),
    "debug": (lambda x: jax.debug.print("x = {x}, y={}", 1, x=x), VECTOR),
    "remat": (jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x))))), VECTOR),
    "reduced": (lambda x: (jnp.cumsum(x), jnp.argmax(x), x.max(), jnp.prod(x)), VECTOR),
    "unicode_é": (jax.jit(lambda x: x, inline=False), VECTOR),
}


def traced(name):
    """JAX's jaxpr of a case."""
    f, *args = CASES[name]
    return jax.make_jaxpr(f)(*args)
