"""Molecular dynamics of a Lennard-Jones fluid, in the style of JAX MD.

Periodic space, neighbour lists of fixed capacity that are rebuilt once a particle has moved half the skin, and a
Nosé-Hoover thermostat around velocity Verlet.

jaxprtool trace examples/zoo/molecular_dynamics.py:simulate --shape 'f32[8,3]' --shape 'f32[8,3]' \\
    --shape 'f32[]' --shape 'f32[]' --shape 'f32[]' \\
    -o examples/zoo/molecular_dynamics.jaxpr
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PARTICLES, CAPACITY, BOX = 8, 6, 3.2
CUTOFF, SKIN, TIME_STEP, STEPS = 1.5, 0.3, 0.005, 6


class Neighbours(NamedTuple):
    """Up to CAPACITY neighbours of each particle (PARTICLES where there is none), and where all were then."""

    index: jax.Array
    reference: jax.Array
    overflow: jax.Array


class State(NamedTuple):
    """Positions, velocities, forces, and the thermostat's friction."""

    position: jax.Array
    velocity: jax.Array
    force: jax.Array
    friction: jax.Array


def displacement(a, b):
    """The shortest way from b to a in the periodic box."""
    return jnp.mod(a - b + BOX / 2, BOX) - BOX / 2


def build(position):
    """The neighbour list at a position: f32[PARTICLES, 3]."""
    between = displacement(position[:, None], position[None])
    squared = jnp.sum(between**2, axis=-1)
    near = (squared < (CUTOFF + SKIN) ** 2) & ~jnp.eye(PARTICLES, dtype=bool)
    candidates = jnp.where(near, jnp.arange(PARTICLES), PARTICLES)
    index = jnp.sort(candidates, axis=1)[:, :CAPACITY]
    return Neighbours(index, position, jnp.max(near.sum(axis=1)) > CAPACITY)


def update(neighbours, position):
    """The same list while nothing moved far, else a new one."""
    moved = displacement(position, neighbours.reference)
    far = jnp.max(jnp.sum(moved**2, axis=-1)) > (SKIN / 2) ** 2
    return lax.cond(far, build, lambda _: neighbours, position)


def smooth_cutoff(squared, onset=1.2):
    """1 below the onset, 0 beyond the cutoff, twice differentiable between."""
    r1, r2 = onset**2, CUTOFF**2
    middle = (r2 - squared) ** 2 * (r2 + 2 * squared - 3 * r1) / (r2 - r1) ** 3
    return jnp.where(squared < r1, 1.0, jnp.where(squared < r2, middle, 0.0))


def energy(position, index, sigma, epsilon):
    """Half the sum over neighbours of the Lennard-Jones potential."""
    mask = index < PARTICLES
    others = position.at[index].get(mode="fill", fill_value=0.0)
    between = jax.vmap(displacement, (None, 0))(position[:, None], others[None])[0]
    squared = jnp.where(mask, jnp.sum(between**2, axis=-1), CUTOFF**2)
    inverse = (sigma**2 / squared) ** 3
    pair = 4 * epsilon * (inverse**2 - inverse) * smooth_cutoff(squared)
    return 0.5 * jnp.sum(jnp.where(mask, pair, 0.0))


def step(state, neighbours, temperature, sigma, epsilon, mass=0.5):
    """Half a kick, a drift, new forces, half a kick; the friction follows the temperature."""
    half = 0.5 * TIME_STEP
    velocity = state.velocity + half * (state.force - state.friction * state.velocity)
    position = jnp.mod(state.position + TIME_STEP * velocity, BOX)
    neighbours = update(neighbours, position)
    force = -jax.grad(energy)(position, neighbours.index, sigma, epsilon)
    kinetic = 0.5 * jnp.sum(velocity**2)
    excess = 2 * kinetic - 3 * PARTICLES * temperature
    friction = state.friction + TIME_STEP * excess / mass
    velocity = (velocity + half * force) / (1 + half * friction)
    return State(position, velocity, force, friction), neighbours


def simulate(position, velocity, temperature, sigma, epsilon):
    """(final position, final velocity, f32[STEPS] total energy at each step, whether a list overflowed)."""
    neighbours = build(position)
    force = -jax.grad(energy)(position, neighbours.index, sigma, epsilon)
    start = (State(position, velocity, force, jnp.float32(0.0)), neighbours)

    def body(carry, _):
        state, neighbours = step(*carry, temperature, sigma, epsilon)
        potential = energy(state.position, neighbours.index, sigma, epsilon)
        return (state, neighbours), (
            potential + 0.5 * jnp.sum(state.velocity**2),
            neighbours.overflow,
        )

    (end, _), (energies, overflow) = lax.scan(body, start, length=STEPS)
    return end.position, end.velocity, energies, overflow.any()


def example(seed=0):
    """Arguments of `simulate`: a warm cubic lattice."""
    rng = np.random.default_rng(seed)
    corners = np.stack(np.meshgrid(*[[0.4, 2.0]] * 3), axis=-1).reshape(PARTICLES, 3)
    position = (corners + rng.normal(0, 0.15, corners.shape)).astype(np.float32)
    velocity = rng.normal(0, 3.0, corners.shape).astype(np.float32)
    return position, velocity, np.float32(1.2), np.float32(1.0), np.float32(0.8)
