"""Newton's method by `while`, differentiated through its steps and, better, implicitly.

Forward mode goes through the loop. Reverse mode cannot go through a loop of unknown length; `custom_root` says what
the derivative of a root is, whatever found it.

jaxprtool trace examples/newton.py:kepler --shape f64[] --shape f64[] > examples/newton.jaxpr
jaxprtool jvp examples/newton.jaxpr | jaxprtool run - --args 0.3 1.2 0 1
jaxprtool trace examples/newton.py:kepler_root --shape f64[] --shape f64[] | jaxprtool grad | jaxprtool run - --args 0.3 1.2
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Function = Callable[[jax.Array], jax.Array]


def newton(f: Function, x0: jax.Array, tolerance: float = 1e-10, most: int = 50) -> jax.Array:
    """A root of an increasing or decreasing f near x0; after `most` steps, the best so far."""

    def is_far(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, change, n = state
        return (jnp.abs(change) > tolerance) & (n < most)

    def step(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        x, _, n = state
        value, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
        return x - value / slope, value / slope, n + 1

    start = x0, jnp.full_like(x0, jnp.inf), jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(is_far, step, start)[0]


def kepler_equation(eccentricity: jax.Array, mean_anomaly: jax.Array) -> Function:
    """The function of E that is zero where E - e sin E = M."""
    return lambda e: e - eccentricity * jnp.sin(e) - mean_anomaly


def kepler(eccentricity: jax.Array, mean_anomaly: jax.Array) -> jax.Array:
    """The eccentric anomaly E; derivatives go through the steps of the method."""
    return newton(kepler_equation(eccentricity, mean_anomaly), mean_anomaly)


def kepler_root(eccentricity: jax.Array, mean_anomaly: jax.Array) -> jax.Array:
    """The eccentric anomaly E; derivatives come from the implicit function theorem."""
    return jax.lax.custom_root(
        kepler_equation(eccentricity, mean_anomaly),
        mean_anomaly,
        newton,
        lambda linear, y: y / linear(jnp.ones_like(y)),
    )


def conjugate_gradient(apply: Function, b: jax.Array, steps: int) -> jax.Array:
    """The solution of apply(x) = b for a symmetric positive definite `apply`, after that many steps."""

    def step(
        _: jax.Array, state: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        x, residual, direction = state
        image = apply(direction)
        length = residual @ residual
        rate = length / (direction @ image)
        new = residual - rate * image
        return x + rate * direction, new, new + (new @ new) / length * direction

    return jax.lax.fori_loop(0, steps, step, (jnp.zeros_like(b), b, b))[0]


def ridge(features: jax.Array, targets: jax.Array, log_penalty: jax.Array) -> jax.Array:
    """Ridge regression's weights: f64[features], by conjugate gradients, differentiated as a linear solve."""

    def apply(w: jax.Array) -> jax.Array:
        return features.T @ (features @ w) + jnp.exp(log_penalty) * w

    n = features.shape[1]
    return jax.lax.custom_linear_solve(
        apply,
        features.T @ targets,
        lambda matvec, b: conjugate_gradient(matvec, b, n),
        symmetric=True,
    )
