"""The expensive primitives on NumPy, against `jax.jit` of the same primitive on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jaxprtool as jt

from .measure import Row, best


def _functions() -> dict[str, tuple[Callable[..., Any], list[Any], float | None]]:
    """Name -> (JAX function, arguments, budget as a multiple of the compiled program's time, if any)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    windows = lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    convolve = lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    rows = rng.integers(0, 1000, size=100_000).astype(np.int32)
    return {
        "matmul 256x256": (jnp.matmul, [draw(256, 256), draw(256, 256)], 3.0),
        "conv 32x32x16, 3x3, 32 features": (
            convolve,
            [draw(1, 32, 32, 16), draw(3, 3, 16, 32)],
            3.0,
        ),
        "sort of a million": (jnp.sort, [draw(1_000_000)], 3.0),
        "gather of 100,000 rows": (lambda x, i: x[i], [draw(1000, 8), rows], 3.0),
        "scatter-add of 100,000 rows": (
            lambda x, i, y: x.at[i].add(y),
            [draw(1000, 8), rows, draw(100_000, 8)],
            3.0,
        ),
        "max over windows, 128x128x16": (windows, [draw(1, 128, 128, 16)], 3.0),
        "cumsum of a million": (jnp.cumsum, [draw(1_000_000)], 3.0),
        "top_k of 100,000": (lambda x: jax.lax.top_k(x, 10), [draw(100_000)], 3.0),
        "fft of 65,536": (jnp.fft.fft, [draw(65_536).astype(np.complex64)], 3.0),
        "cholesky 256x256": (
            jnp.linalg.cholesky,
            [(lambda a: a @ a.T + 256 * np.eye(256, dtype=np.float32))(draw(256, 256))],
            3.0,
        ),
    }


def kernel_rows(runs: int) -> list[Row]:
    """A row for each, in milliseconds a call; not in turn, for the threads of BLAS and of XLA spin
    for a while after a call and would take the cores from each other."""
    import jax

    runs = max(runs, 50)
    rows = []
    for what, (function, args, budget) in _functions().items():
        program = jt.from_jax(jax.make_jaxpr(function)(*args))
        compiled, ready = jax.jit(function), [jax.device_put(a) for a in args]
        jax.block_until_ready(compiled(*ready))
        jt.eval_jaxpr(program.jaxpr, [*program.consts, *args])
        (ours,) = best(runs, lambda p=program, a=args: jt.eval_jaxpr(p.jaxpr, [*p.consts, *a]))
        (theirs,) = best(runs, lambda f=compiled, a=ready: jax.block_until_ready(f(*a)))
        rows.append(Row(what, ours * 1e3, theirs * 1e3, budget, "ms"))
    return rows
