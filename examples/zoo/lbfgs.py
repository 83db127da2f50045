"""Logistic regression by L-BFGS, in the style of Optax and JAXopt.

The two-loop recursion over a ring buffer of differences, a backtracking line search (a loop in a loop), and a stop once the
gradient is small.

jaxprtool trace examples/zoo/lbfgs.py:minimise --shape 'f32[3]' --shape 'f32[8,3]' --shape 'f32[8]' \\
    --shape 'f32[]' \\
    -o examples/zoo/lbfgs.jaxpr
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

HISTORY, ITERATIONS, TOLERANCE = 3, 8, 1e-3
SHRINK, DECREASE, TRIALS = 0.5, 1e-4, 12


class State(NamedTuple):
    """Where the search is, and the last differences of positions and gradients."""

    iteration: jax.Array
    position: jax.Array
    value: jax.Array
    gradient: jax.Array
    steps: jax.Array
    changes: jax.Array
    rho: jax.Array


def objective(w, x, y, strength):
    """Regularised logistic loss; x: f32[n, d], y: f32[n] of -1 and 1."""
    return jnp.mean(jax.nn.softplus(-y * (x @ w))) + 0.5 * strength * jnp.vdot(w, w)


def direction(state):
    """Minus the inverse Hessian, as the history knows it, times the gradient."""
    newest = state.iteration - 1

    def backward(i, carry):
        q, alphas = carry
        k = (newest - i) % HISTORY
        alpha = state.rho[k] * jnp.vdot(state.steps[k], q)
        return q - alpha * state.changes[k], alphas.at[k].set(alpha)

    q, alphas = lax.fori_loop(0, HISTORY, backward, (state.gradient, jnp.zeros(HISTORY)))
    last = newest % HISTORY
    curvature = jnp.vdot(state.changes[last], state.changes[last])
    product = jnp.where(state.rho[last] > 0, state.rho[last] * curvature, 1.0)
    scale = 1 / jnp.maximum(product, 1e-10)

    def forward(i, r):
        k = (newest + 1 + i) % HISTORY
        beta = state.rho[k] * jnp.vdot(state.changes[k], r)
        return r + (alphas[k] - beta) * state.steps[k]

    return -lax.fori_loop(0, HISTORY, forward, scale * q)


def line_search(f, state, descent):
    """The first step length of 1, 1/2, 1/4, ... that lowers f enough (Armijo)."""
    slope = jnp.vdot(state.gradient, descent)

    def too_long(carry):
        trial, length = carry
        value = f(state.position + length * descent)
        return (value > state.value + DECREASE * length * slope) & (trial < TRIALS)

    def shorten(carry):
        trial, length = carry
        return trial + 1, length * SHRINK

    return lax.while_loop(too_long, shorten, (0, jnp.float32(1.0)))[1]


def minimise(w, x, y, strength):
    """(the best w, its loss, the gradient's norm, i32[] iterations) from a start w: f32[d]."""

    def f(w):
        return objective(w, x, y, strength)

    value, gradient = jax.value_and_grad(f)(w)
    blank = jnp.zeros((HISTORY, w.size))
    start = State(jnp.int32(0), w, value, gradient, blank, blank, jnp.zeros(HISTORY))

    def going(state):
        return (state.iteration < ITERATIONS) & (jnp.linalg.norm(state.gradient) > TOLERANCE)

    def body(state):
        descent = direction(state)
        position = state.position + line_search(f, state, descent) * descent
        value, gradient = jax.value_and_grad(f)(position)
        step, change = position - state.position, gradient - state.gradient
        product = jnp.vdot(step, change)
        k = state.iteration % HISTORY
        return State(
            state.iteration + 1,
            position,
            value,
            gradient,
            state.steps.at[k].set(step),
            state.changes.at[k].set(change),
            state.rho.at[k].set(jnp.where(product > 1e-10, 1 / jnp.maximum(product, 1e-10), 0.0)),
        )

    end = lax.while_loop(going, body, start)
    return end.position, end.value, jnp.linalg.norm(end.gradient), end.iteration


def example(seed=0):
    """Arguments of `minimise`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = np.sign(x @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=8)).astype(np.float32)
    return np.zeros(3, np.float32), x, y, np.float32(0.1)
