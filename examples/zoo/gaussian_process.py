"""The objective of Gaussian-process regression, in the style of GPJax.

The negative log marginal likelihood by a Cholesky factor, and the predictive density of held-out points by a solve.

jaxprtool trace examples/zoo/gaussian_process.py:objective \\
    --shape '{"amplitude": f32[], "length_scale": f32[2], "log_noise": f32[], "log_rough": f32[],
        "matern_scale": f32[], "mean": f32[]}' \\
    --shape 'f32[6,2]' --shape 'f32[6]' --shape 'f32[3,2]' --shape 'f32[3]' \\
    -o examples/zoo/gaussian_process.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular


def squared_distances(x, y):
    """f32[n, d], f32[m, d] -> f32[n, m], never negative."""
    cross = x @ y.T
    return jnp.maximum((x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * cross, 0.0)


def kernel(params, x, y):
    """A squared exponential with a length scale for each input, plus a Matérn 5/2."""
    scale = jax.nn.softplus(params["length_scale"])
    smooth = jnp.exp(-0.5 * squared_distances(x / scale, y / scale))
    squared = 5 * squared_distances(x, y) / jax.nn.softplus(params["matern_scale"]) ** 2
    positive = squared > 1e-10
    distance = jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)
    rough = (1 + distance + squared / 3) * jnp.exp(-distance)
    return jax.nn.softplus(params["amplitude"]) * smooth + jnp.exp(params["log_rough"]) * rough


def negative_log_marginal(params, x, y):
    """-log p(y | x) with the function integrated out."""
    noise = jnp.exp(params["log_noise"])
    covariance = kernel(params, x, x) + noise * jnp.eye(len(x))
    factor = jnp.linalg.cholesky(covariance)
    error = y - params["mean"]
    quadratic = error @ cho_solve((factor, True), error)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return 0.5 * (quadratic + log_det + len(x) * jnp.log(2 * jnp.pi)), factor


def predict(params, x, y, factor, test):
    """Mean and covariance of the function at `test`."""
    cross = kernel(params, x, test)
    noise = jnp.exp(params["log_noise"])
    covariance = kernel(params, x, x) + noise * jnp.eye(len(x))
    mean = params["mean"] + cross.T @ jnp.linalg.solve(covariance, y - params["mean"])
    explained = solve_triangular(factor, cross, lower=True)
    return mean, kernel(params, test, test) - explained.T @ explained + noise * jnp.eye(len(test))


def objective(params, x, y, test, targets):
    """Negative log-density of y at x, and of `targets` at `test` given those."""
    fit, factor = negative_log_marginal(params, x, y)
    mean, covariance = predict(params, x, y, factor, test)
    sign, log_det = jnp.linalg.slogdet(covariance)
    error = targets - mean
    held_out = 0.5 * (error @ jnp.linalg.inv(covariance) @ error + sign * log_det)
    return fit + held_out


def example(seed=0):
    """Arguments of `objective`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    params = {
        "amplitude": np.float32(1.0),
        "length_scale": draw(2),
        "log_noise": np.float32(-1.0),
        "log_rough": np.float32(-0.5),
        "matern_scale": np.float32(0.7),
        "mean": np.float32(0.1),
    }
    return params, draw(6, 2), draw(6), draw(3, 2), draw(3)
