"""K-means by `fori_loop`: Lloyd's iteration, started from the first points.

jaxprtool trace examples/kmeans.py:kmeans --shape 'f32[30,2]' --static clusters=3 > examples/kmeans.jaxpr
jaxprtool run examples/kmeans.jaxpr --args random:0
"""

import jax
import jax.numpy as jnp


def square_distances(points: jax.Array, centres: jax.Array) -> jax.Array:
    """f32[points, clusters]."""
    return jnp.sum(jnp.square(points[:, None] - centres), axis=-1)


def lloyd(points: jax.Array, centres: jax.Array) -> jax.Array:
    """The mean of each cluster's points; a cluster without points keeps its centre."""
    nearest = jnp.argmin(square_distances(points, centres), axis=-1)
    sums = jnp.zeros_like(centres).at[nearest].add(points)
    counts = jnp.zeros(len(centres), points.dtype).at[nearest].add(1.0)[:, None]
    return jnp.where(counts > 0, sums / jnp.maximum(counts, 1.0), centres)


def kmeans(
    points: jax.Array, clusters: int = 3, steps: int = 10
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Centres f32[clusters, d], the cluster of each point i32[points], and the mean square distance."""
    centres = jax.lax.fori_loop(0, steps, lambda _, c: lloyd(points, c), points[:clusters])
    distances = square_distances(points, centres)
    return centres, jnp.argmin(distances, axis=-1), jnp.mean(jnp.min(distances, axis=-1))
