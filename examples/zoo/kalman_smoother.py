"""Filtering and Rauch-Tung-Striebel smoothing in parallel over time, in the style of Dynamax.

Both passes are associative scans (Särkkä and García-Fernández 2021): logarithmic depth instead of a loop over time.

jaxprtool trace examples/zoo/kalman_smoother.py:smooth \\
    --shape '{"covariance": f32[2,2], "dynamics": f32[2,2], "emission": f32[1,2], "emission_noise": f32[1,1],
        "mean": f32[2], "noise": f32[2,2]}' \\
    --shape 'f32[3,1]' \\
    -o examples/zoo/kalman_smoother.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

SEEN, STATE, TIME = 1, 2, 3


def symmetric(matrix):
    """The symmetric part."""
    return (matrix + matrix.mT) / 2


def solve(covariance, b):
    """covariance^-1 b, by a Cholesky factor."""
    return cho_solve(cho_factor(symmetric(covariance), lower=True), b)


def filtering_element(model, mean, covariance, y):
    """What one observation says: (A, b, C, J, eta) and its log-likelihood, from the prediction before it."""
    f, h = model["dynamics"], model["emission"]
    innovation = h @ covariance @ h.T + model["emission_noise"]
    both = solve(innovation, h @ jnp.concatenate([covariance, f], axis=1)).T
    gain, back = jnp.split(both, 2)
    error = y - h @ mean
    return (
        f - gain @ h @ f,
        mean + gain @ error,
        symmetric(covariance - gain @ h @ covariance),
        symmetric(back @ h @ f),
        back @ y,
    )


def combine_filtered(first, second):
    """The element of two stretches of time, one after the other."""
    a1, b1, c1, j1, e1 = first
    a2, b2, c2, j2, e2 = second
    inverse = jnp.linalg.inv(jnp.eye(STATE) + c1 @ j2)
    left, right = a2 @ inverse, a1.T @ inverse.T
    return (
        left @ a1,
        left @ (b1 + c1 @ e2) + b2,
        symmetric(left @ c1 @ a2.T + c2),
        symmetric(right @ j2 @ a1 + j1),
        right @ (e2 - j2 @ b1) + e1,
    )


def filtered(model, ys):
    """Means f32[time, state] and covariances of the states, given the observations so far."""
    first = filtering_element(model, model["mean"], model["covariance"], ys[0])
    first = (jnp.zeros((STATE, STATE)), *first[1:])
    zero = jnp.zeros(STATE)
    rest = jax.vmap(lambda y: filtering_element(model, zero, model["noise"], y))(ys[1:])
    elements = jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, rest)
    _, means, covariances, _, _ = lax.associative_scan(jax.vmap(combine_filtered), elements)
    return means, covariances


def smoothing_element(model, mean, covariance):
    """(E, g, L): a state given the next one."""
    f = model["dynamics"]
    predicted = f @ covariance @ f.T + model["noise"]
    gain = solve(predicted, f @ covariance).T
    return gain, mean - gain @ f @ mean, symmetric(covariance - gain @ predicted @ gain.T)


def combine_smoothed(later, earlier):
    """The scan runs backwards in time."""
    e2, g2, l2 = later
    e1, g1, l1 = earlier
    return e1 @ e2, e1 @ g2 + g1, symmetric(e1 @ l2 @ e1.T + l1)


def log_likelihood(model, ys, means, covariances):
    """The log-density of the observations, from the filtered states."""
    f, h = model["dynamics"], model["emission"]

    def one(mean, covariance, y):
        innovation = h @ covariance @ h.T + model["emission_noise"]
        return jax.scipy.stats.multivariate_normal.logpdf(y, h @ mean, innovation)

    predicted = jax.vmap(lambda m, p: (f @ m, f @ p @ f.T + model["noise"]))(
        means[:-1], covariances[:-1]
    )
    first = (model["mean"][None], model["covariance"][None])
    priors = jax.tree.map(lambda x, xs: jnp.concatenate([x, xs]), first, predicted)
    return jax.vmap(one)(*priors, ys).sum()


def smooth(model, ys):
    """(log-likelihood, means f32[time, state], covariances f32[time, state, state]) given ys: f32[time, seen]."""
    means, covariances = filtered(model, ys)
    gains = jax.vmap(smoothing_element, in_axes=(None, 0, 0))(model, means[:-1], covariances[:-1])
    last = (jnp.zeros((STATE, STATE)), means[-1], covariances[-1])
    elements = jax.tree.map(lambda xs, x: jnp.concatenate([xs, x[None]]), gains, last)
    _, smoothed, spread = lax.associative_scan(jax.vmap(combine_smoothed), elements, reverse=True)
    return log_likelihood(model, ys, means, covariances), smoothed, spread


def example(seed=0):
    """Arguments of `smooth`: a noisy oscillator."""
    rng = np.random.default_rng(seed)
    angle = 0.6
    rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    model = {
        "mean": rng.normal(size=STATE),
        "covariance": np.array([[1.0, 0.2], [0.2, 0.8]]),
        "dynamics": 0.95 * np.array(rotation),
        "noise": np.array([[0.1, 0.02], [0.02, 0.2]]),
        "emission": np.array([[1.0, 0.3]]),
        "emission_noise": np.array([[0.3]]),
    }
    ys = rng.normal(size=(TIME, SEEN)).astype(np.float32)
    return {k: v.astype(np.float32) for k, v in model.items()}, ys
