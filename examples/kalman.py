"""A Kalman filter by `scan`: the log-likelihood of a series under a linear model with Gaussian noise.

jaxprtool trace examples/kalman.py:log_likelihood --shape '{"dynamics": f64[2,2], "observation": f64[1,2],
    "log_q": f64[2], "log_r": f64[1]}' --shape f64[20,1] > examples/kalman.jaxpr
jaxprtool grad examples/kalman.jaxpr --wrt 0,1,2,3 | jaxprtool run - --args random:0
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

Params = dict[str, jax.Array]
Belief = tuple[jax.Array, jax.Array]


def predict(params: Params, belief: Belief) -> Belief:
    """Mean and covariance of the next state."""
    mean, covariance = belief
    a = params["dynamics"]
    return a @ mean, a @ covariance @ a.T + jnp.diag(jnp.exp(params["log_q"]))


def update(params: Params, belief: Belief, y: jax.Array) -> tuple[Belief, jax.Array]:
    """The belief given an observation y, and the log-density of y."""
    mean, covariance = belief
    c = params["observation"]
    residual = y - c @ mean
    factor = jnp.linalg.cholesky(c @ covariance @ c.T + jnp.diag(jnp.exp(params["log_r"])))
    gain = cho_solve((factor, True), c @ covariance).T
    whitened = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    log_density = -0.5 * (whitened @ whitened + y.size * jnp.log(2 * jnp.pi))
    log_density -= jnp.sum(jnp.log(jnp.diag(factor)))
    return (mean + gain @ residual, covariance - gain @ c @ covariance), log_density


def filtered(params: Params, ys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(means of the states given the past: [time, states], log-densities [time]) for ys: [time, outputs]."""

    def step(belief: Belief, y: jax.Array) -> tuple[Belief, tuple[jax.Array, jax.Array]]:
        belief, log_density = update(params, predict(params, belief), y)
        return belief, (belief[0], log_density)

    n = params["dynamics"].shape[0]
    start = jnp.zeros(n, ys.dtype), jnp.eye(n, dtype=ys.dtype)
    return jax.lax.scan(step, start, ys)[1]


def log_likelihood(params: Params, ys: jax.Array) -> jax.Array:
    """The log-density of the whole series."""
    return filtered(params, ys)[1].sum()
