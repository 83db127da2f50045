"""The likelihood of data under a normalising flow, in the style of Distrax.

Each layer is an invertible linear map, kept as its LU factors, and a coupling by monotone rational-quadratic splines.

jaxprtool trace examples/zoo/flow.py:loss \\
    --shape '{"coupling": {"b1": f32[2,8], "w1": f32[2,2,8], "w2": f32[2,8,32]}, "linear": {"bias": f32[2,4],
        "log_diagonal": f32[2,4], "lu": f32[2,4,4]}}' \\
    --shape 'f32[3,4]' \\
    -o examples/zoo/flow.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

FEATURES, HIDDEN, BINS, BOUND = 4, 8, 5, 3.0
HALF = FEATURES // 2


def linear(params, x):
    """(y, log |det|) of the map whose inverse is x = L U y + b; x: f32[n, FEATURES]."""
    lower = jnp.tril(params["lu"], -1) + jnp.eye(FEATURES)
    upper = jnp.triu(params["lu"], 1) + jnp.diag(jnp.exp(params["log_diagonal"]))
    half = solve_triangular(lower, (x - params["bias"]).T, lower=True, unit_diagonal=True)
    return solve_triangular(upper, half).T, -jnp.sum(params["log_diagonal"])


def knots(logits, least=1e-2):
    """Increasing positions from -BOUND to BOUND; the last axis grows by one."""
    widths = least + (1 - least * BINS) * jax.nn.softmax(logits, axis=-1)
    inner = 2 * BOUND * jnp.cumsum(widths, axis=-1)[..., :-1] - BOUND
    return jnp.pad(inner, [(0, 0)] * (inner.ndim - 1) + [(1, 1)], constant_values=(-BOUND, BOUND))


def spline(x, parameters):
    """(y, log dy/dx) of the spline of Durkan et al. 2019, the identity out of bounds."""
    xs = knots(parameters[..., :BINS])
    ys = knots(parameters[..., BINS : 2 * BINS])
    slopes = 1e-3 + jax.nn.softplus(parameters[..., 2 * BINS :])
    inside = jnp.abs(x) < BOUND
    safe = jnp.where(inside, x, 0.0)
    bin = jnp.sum(xs[..., 1:-1] <= safe[..., None], axis=-1, keepdims=True)

    def at(values, i):
        return jnp.take_along_axis(values, i, axis=-1)[..., 0]

    x0, x1, y0, y1 = at(xs, bin), at(xs, bin + 1), at(ys, bin), at(ys, bin + 1)
    d0, d1 = at(slopes, bin), at(slopes, bin + 1)
    t, slope = (safe - x0) / (x1 - x0), (y1 - y0) / (x1 - x0)
    between = t * (1 - t)
    below = slope + (d0 + d1 - 2 * slope) * between
    y = y0 + (y1 - y0) * (slope * t**2 + d0 * between) / below
    above = d1 * t**2 + 2 * slope * between + d0 * (1 - t) ** 2
    log_slope = jnp.log(above) + 2 * (jnp.log(slope) - jnp.log(below))
    return jnp.where(inside, y, x), jnp.where(inside, log_slope, 0.0)


def coupling(params, x):
    """(y, log |det|): the second half moves by splines that the first half chooses."""
    kept, moved = jnp.split(x, 2, axis=-1)
    hidden = jnp.tanh(kept @ params["w1"] + params["b1"])
    parameters = (hidden @ params["w2"]).reshape(*moved.shape, 3 * BINS + 1)
    moved, log_slope = spline(moved, parameters)
    return jnp.concatenate([moved, kept], axis=-1), log_slope.sum(axis=-1)


def log_prob(params, x):
    """The log-density of each row of x: f32[n, FEATURES]."""

    def layer(carry, layer_params):
        x, total = carry
        x, log_det = linear(layer_params["linear"], x)
        x, log_slope = coupling(layer_params["coupling"], x)
        return (x, total + log_det + log_slope), None

    (z, log_det), _ = jax.lax.scan(layer, (x, jnp.zeros(len(x))), params)
    return jax.scipy.stats.norm.logpdf(z).sum(axis=-1) + log_det


def loss(params, x):
    """Negative log-likelihood in bits per dimension."""
    return -jnp.mean(log_prob(params, x)) / (FEATURES * jnp.log(2.0))


def example(seed=0, layers=2):
    """Arguments of `loss`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(0, 0.4, (layers, *shape)).astype(np.float32)

    params = {
        "linear": {
            "lu": draw(FEATURES, FEATURES),
            "log_diagonal": draw(FEATURES),
            "bias": draw(FEATURES),
        },
        "coupling": {
            "w1": draw(HALF, HIDDEN),
            "b1": draw(HIDDEN),
            "w2": draw(HIDDEN, HALF * (3 * BINS + 1)),
        },
    }
    return params, rng.normal(size=(3, FEATURES)).astype(np.float32)
