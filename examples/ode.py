"""An ordinary differential equation solved with adaptive steps by `while`.

The step size follows the error, so the number of steps depends on the data: forward mode goes through, and under
vmap every row takes its own steps until it is done.

jaxprtool trace examples/ode.py:van_der_pol --shape f64[2] --shape f64[] > examples/ode.jaxpr
jaxprtool jvp examples/ode.jaxpr | jaxprtool run - --args '[2.0,0.0]' 1.0 '[1.0,0.0]' 0.0
jaxprtool vmap --in-axes 0,- --axis-size 3 examples/ode.jaxpr | jaxprtool run --jit - --args random:0
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Field = Callable[[jax.Array], jax.Array]


class State(NamedTuple):
    """Where the solver is.

    Attributes:
      t: the time.
      y: the solution there.
      slope: its derivative, which the next step takes over as its first stage.
      step: the size of the step to try next.
      tried: steps so far, those that were rejected included.
    """

    t: jax.Array
    y: jax.Array
    slope: jax.Array
    step: jax.Array
    tried: jax.Array


def bogacki_shampine(
    field: Field, y: jax.Array, k1: jax.Array, h: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One step of size h: the solution of third order, its slope, and an estimate of the error."""
    k2 = field(y + h * k1 / 2)
    k3 = field(y + 3 * h * k2 / 4)
    new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
    k4 = field(new)
    return new, k4, h * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8)


def solve(
    field: Field, y0: jax.Array, t1: float, tolerance: float = 1e-5
) -> tuple[jax.Array, jax.Array]:
    """The solution of y' = field(y), y(0) = y0, at time t1, and how many steps were tried."""

    def advance(s: State) -> State:
        h = jnp.minimum(s.step, t1 - s.t)
        y, slope, error = bogacki_shampine(field, s.y, s.slope, h)
        scale = tolerance * (1 + jnp.maximum(jnp.abs(s.y), jnp.abs(y)))
        norm = jnp.max(jnp.abs(error / scale))
        factor = jnp.clip(0.9 * jnp.maximum(norm, 1e-10) ** (-1 / 3), 0.2, 5.0)
        accepted = State(s.t + h, y, slope, h * factor, s.tried + 1)
        rejected = State(s.t, s.y, s.slope, h * factor, s.tried + 1)
        return jax.tree.map(lambda a, b: jnp.where(norm <= 1, a, b), accepted, rejected)

    zero = jnp.zeros((), y0.dtype)
    start = State(zero, y0, field(y0), jnp.full((), 0.01, y0.dtype), jnp.zeros((), jnp.int32))
    end = jax.lax.while_loop(lambda s: s.t < t1, advance, start)
    return end.y, end.tried


def van_der_pol(y0: jax.Array, mu: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Van der Pol's oscillator at time 2: position and velocity, and the steps tried.

    Args:
      y0: position and velocity at time 0, f64[2].
      mu: the damping, f64[].
    """

    def field(y: jax.Array) -> jax.Array:
        x, v = y
        return jnp.stack([v, mu * (1 - x**2) * v - x])

    return solve(field, y0, 2.0)
