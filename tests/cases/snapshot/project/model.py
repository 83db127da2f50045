"""Functions that are kept as files."""

from jaxprtool import lax


def loss(x):
    return lax.reduce_sum(lax.mul(lax.sin(x), x), axes=(0,))


def step(x):
    return lax.add(lax.mul(x, 0.5), 1.0)


def moved(x):
    return lax.add(1.0, lax.mul(0.5, x))
