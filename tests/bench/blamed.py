"""`blame` and `precision` of programs whose shape makes them dear, against the run on NumPy (in the column of JAX).

Many origins, large stacked results, many small equations, calls in calls, and long while loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.driver.blame import blame
from jaxprtool.driver.precision import precision
from jaxprtool.driver.run import run

from .measure import Row, alone

BUDGET = 3.0
Shape = tuple[Callable[..., Any], list[Any]]


def many_origins(n: int = 1_000, width: int = 8) -> Shape:
    """A sum of n logarithms, of which each begins to be NaN by itself."""
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        total = x
        for i in range(n):
            total = total + jnp.log(x - (2 + i))
        return total

    return f, [np.linspace(0, 1, width).astype(np.float32)]


def origins_apart(n: int = 1_000) -> Shape:
    """As many results, each with a NaN of its own."""
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        return [jnp.tanh(jnp.log(x - (2 + i))) for i in range(n)]

    return f, [np.linspace(0, 1, 8).astype(np.float32)]


def stacked(steps: int = 200, width: int = 20_000) -> Shape:
    """A scan whose iterations each give an array, which it stacks."""
    import jax
    import jax.numpy as jnp

    def f(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = jnp.tanh(c * 0.9 + x)
            return c, (c, c * 2)

        return jax.lax.scan(step, c, xs)

    rng = np.random.default_rng(0)
    return f, [np.zeros(width, np.float32), rng.normal(size=(steps,)).astype(np.float32)]


def stacked_inputs(steps: int = 200, width: int = 20_000) -> Shape:
    """As `stacked`, of inputs that are as large."""
    f, (c, _) = stacked(steps, width)
    return f, [c, np.random.default_rng(0).normal(size=(steps, width)).astype(np.float32)]


def small_equations(n: int = 4_000) -> Shape:
    """Equations on scalars."""
    import jax.numpy as jnp

    def f(x: Any, y: Any) -> Any:
        for i in range(n // 4):
            x = jnp.sin(x) * y + (1 + i / n) - x
        return x

    return f, [np.float32(0.5), np.float32(0.25)]


def nested_calls(depth: int = 60, each: int = 12) -> Shape:
    """Calls in calls of one depth after another, without two alike."""
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        for k in range(each):
            g = lambda x, k=k: jnp.sin(x) * (k + 1)
            for i in range(depth):
                g = jax.jit(lambda x, g=g, i=i: g(x) + x * (i + 1))
            x = jnp.tanh(g(x))
        return x

    return f, [np.linspace(0, 1, 8).astype(np.float32)]


def long_while(trips: int = 10_000) -> Shape:
    """A while loop with a small body."""
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            i, c = s
            return i + 1, jnp.tanh(c * 0.9 + x)

        return jax.lax.while_loop(lambda s: s[0] < trips, body, (0, x))[1]

    return f, [np.linspace(0, 1, 8).astype(np.float32)]


def steered_while(trips: int = 10_000) -> Shape:
    """A while loop whose condition reads what the body computes."""
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            i, c = s
            return i + 1, jnp.where(i % 2 == 0, jnp.sin(c) + x, c * 0.5)

        return jax.lax.while_loop(lambda s: (s[0] < trips) & ~(s[1].sum() > 1e9), body, (0, x))[1]

    return f, [np.linspace(0, 1, 8).astype(np.float32)]


SHAPES: dict[str, Callable[[], Shape]] = {
    "many origins": many_origins,
    "origins apart": origins_apart,
    "stacked": stacked,
    "stacked inputs": stacked_inputs,
    "small equations": small_equations,
    "nested calls": nested_calls,
    "long while": long_while,
    "steered while": steered_while,
}


def program_of(name: str, shape: Shape) -> tuple[Any, list[Any]]:
    """Return a program that was read, and its arguments."""
    f, args = shape
    return jt.parse(jt.format_jaxpr(jt.trace(f, *args), lossless=True), name), args


def blamed_rows(runs: int) -> Iterator[Row]:
    """Three rows of each shape: `blame`, also of NaN in all arguments, and `precision`."""
    for name, make in SHAPES.items():
        program, given = program_of(name, make())
        bad = [x * np.float32(np.nan) for x in given]
        plain, blaming, everywhere, measured = alone(
            runs,
            lambda p=program, a=given: run(p, a),
            lambda p=program, a=given: blame(p, a).lines(),
            lambda p=program, a=bad: blame(p, a).lines(),
            lambda p=program, a=given: precision(p, a, tries=0).lines(),
        )
        for what, ours in (
            ("blame", blaming),
            ("blame of NaN everywhere", everywhere),
            ("precision", measured),
        ):
            yield Row(f"{what}, {name}", ours * 1e3, plain * 1e3, BUDGET, "ms")
