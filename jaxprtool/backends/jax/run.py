"""Programs that JAX itself lowers, compiles and runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.devices import devices_on
from jaxprtool.backends.jax.from_jax import const_value
from jaxprtool.backends.jax.function import FlatFunction, has_wide_types
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["run_with_jax"]


def run_with_jax(
    program: ClosedJaxpr,
    args: Sequence[Any],
    platform: str | None = None,
    devices: int = 1,
) -> list[Any]:
    """The results of `jax.jit` of a program.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments.
      platform: where it runs; JAX's own choice for None.
      devices: how many devices its meshes have.

    Returns:
      Arrays of JAX's, which are on the device; typed keys as ours.

    Raises:
      UsageError: the platform is not there, or an argument does not fit.
      UnsupportedError: JAX does not take the program, or fails while it runs.
    """
    on = devices_on(platform or "cpu", devices) if platform or devices > 1 else None
    with contextlib.ExitStack() as stack:
        if on:
            stack.enter_context(jax.default_device(on[0]))
        if has_wide_types(program):
            stack.enter_context(jax.enable_x64(True))
        flat = FlatFunction(program)
        given = flat.arguments(args)
        try:
            results = jax.jit(flat)(*given)
            jax.block_until_ready(results)
            jax.effects_barrier()
        except JaxprToolError:
            raise
        except Exception as e:  # JAX's rules and its compiler are run here: any error is possible
            first = next(iter(str(e).strip().splitlines()), "")
            message = f"JAX does not run the program: {type(e).__name__}: {first}"
            fail(UnsupportedError, message, "jax-run")
        return [_held(x) for x in results]


def _held(x: Any) -> Any:
    """A result as the rest of the package takes it: JAX's array, or keys of ours."""
    is_key = isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)
    return const_value(x) if is_key else x
