"""Hamiltonian Monte Carlo with a warm-up of the step size, in the style of BlackJAX.

The posterior is Neal's funnel seen through noisy data; a scan of leapfrog steps is inside of a scan of samples.

jaxprtool trace examples/zoo/hmc.py:sample --shape 'key<fry>[]' --shape '{"scale": f32[], "x": f32[3]}' \\
    --shape 'f32[3]' --shape 'f32[]' \\
    -o examples/zoo/hmc.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

DIMENSION, SAMPLES, LEAPFROG = 3, 4, 5
TARGET = 0.8


def log_density(position, data):
    """log p(scale, x, data): position["scale"]: f32[], position["x"]: f32[DIMENSION]."""
    scale, x = position["scale"], position["x"]
    prior = jax.scipy.stats.norm.logpdf(scale, 0.0, 1.5)
    funnel = jax.scipy.stats.norm.logpdf(x, 0.0, jnp.exp(scale / 2)).sum()
    return prior + funnel + jax.scipy.stats.t.logpdf(data, 4.0, x, 0.5).sum()


def leapfrog(density, state, step_size):
    """One symplectic step of (position, momentum, gradient)."""
    position, momentum, gradient = state
    momentum = jax.tree.map(lambda p, g: p + 0.5 * step_size * g, momentum, gradient)
    position = jax.tree.map(lambda q, p: q + step_size * p, position, momentum)
    gradient = jax.grad(density)(position)
    momentum = jax.tree.map(lambda p, g: p + 0.5 * step_size * g, momentum, gradient)
    return position, momentum, gradient


def energy(density, position, momentum):
    """Potential plus kinetic."""
    kinetic = 0.5 * sum(jnp.sum(p**2) for p in jax.tree.leaves(momentum))
    return kinetic - density(position)


def random_like(key, tree):
    """Standard normal leaves."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def kernel(key, position, step_size, density):
    """(next position, probability of acceptance)."""
    momentum_key, accept_key, count_key = jax.random.split(key, 3)
    momentum = random_like(momentum_key, position)
    before = energy(density, position, momentum)
    steps = jax.random.randint(count_key, (), 1, LEAPFROG + 1)

    def step(state, i):
        moved = leapfrog(density, state, step_size)
        return jax.tree.map(lambda new, old: jnp.where(i < steps, new, old), moved, state), None

    start = (position, momentum, jax.grad(density)(position))
    (proposal, momentum, _), _ = lax.scan(step, start, jnp.arange(LEAPFROG))
    change = before - energy(density, proposal, momentum)
    probability = jnp.exp(jnp.minimum(0.0, jnp.where(jnp.isnan(change), -jnp.inf, change)))
    accepted = jax.random.uniform(accept_key) < probability
    return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposal, position), probability


def sample(key, position, data, log_step):
    """(positions f32[SAMPLES, ...], acceptance f32[SAMPLES], the adapted log step size)."""

    def density(position):
        return log_density(position, data)

    def one(carry, key):
        position, log_step, t = carry
        position, probability = kernel(key, position, jnp.exp(log_step), density)
        log_step = log_step + (probability - TARGET) / jnp.sqrt(t + 1.0)
        return (position, log_step, t + 1), (position, probability)

    keys = jax.random.split(key, SAMPLES)
    (_, log_step, _), (positions, probabilities) = lax.scan(one, (position, log_step, 0), keys)
    return positions, probabilities, log_step


def example(seed=0):
    """Arguments of `sample`."""
    rng = np.random.default_rng(seed)
    position = {"scale": np.float32(0.3), "x": rng.normal(size=DIMENSION).astype(np.float32)}
    data = rng.normal(size=DIMENSION).astype(np.float32)
    return jax.random.key(seed), position, data, np.float32(-1.5)
