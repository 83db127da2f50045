"""Derivatives of programs as JAX's own rules have them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax.from_jax import const_value
from jaxprtool.backends.jax.function import FlatFunction, has_wide_types
from jaxprtool.backends.numpy_eval import float0
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["jvp_with_jax", "vjp_with_jax"]

# (arguments, tangents or cotangents) -> results
Derivative = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def jvp_with_jax(program: ClosedJaxpr) -> Derivative:
    """`jax.jvp` of a program, compiled: a function of its arguments and the tangents of the inexact ones.

    It returns the results, then the tangents of the inexact ones, as `driver.jvp` orders them. It raises UnsupportedError
    where JAX does not take the program, or refuses to differentiate it.
    """

    def derivative(flat: FlatFunction, given: list[Any], tangents: list[Any]) -> list[Any]:
        left = iter(tangents)
        pairs = zip(program.in_avals, given, strict=True)
        each = [next(left) if _is_inexact(a) else _zero_of(x) for a, x in pairs]
        outs, out_tangents = jax.jvp(flat, given, each)
        pairs = zip(program.out_avals, out_tangents, strict=True)
        return [*outs, *(t for a, t in pairs if _is_inexact(a))]

    return _compiled(program, derivative)


def vjp_with_jax(program: ClosedJaxpr) -> Derivative:
    """`jax.vjp` of a program, compiled: a function of its arguments and the cotangents of its inexact results.

    It returns the results, then the cotangents of the inexact arguments, as `driver.vjp` orders them. It raises as that of
    `jvp_with_jax`.
    """

    def derivative(flat: FlatFunction, given: list[Any], cotangents: list[Any]) -> list[Any]:
        outs, pullback = jax.vjp(flat, *given)
        left = iter(cotangents)
        pairs = zip(program.out_avals, outs, strict=True)
        found = pullback([next(left) if _is_inexact(a) else _zero_of(x) for a, x in pairs])
        pairs = zip(program.in_avals, found, strict=True)
        return [*outs, *(t for a, t in pairs if _is_inexact(a))]

    return _compiled(program, derivative)


def _compiled(
    program: ClosedJaxpr, derivative: Callable[[FlatFunction, list[Any], list[Any]], list[Any]]
) -> Derivative:
    wide = has_wide_types(program)
    with jax.enable_x64(wide):
        flat = FlatFunction(program)
        compiled = jax.jit(functools.partial(derivative, flat))

    def run(args: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        with jax.enable_x64(wide):
            given = flat.arguments(args), [*map(jax.numpy.asarray, directions)]
            try:
                return [_held(x) for x in jax.block_until_ready(compiled(*given))]
            except JaxprToolError:
                raise
            except (
                Exception
            ) as e:  # JAX's rules and its compiler are run here: any error is possible
                first = next(iter(str(e).strip().splitlines()), "")
                message = f"JAX does not differentiate the program: {type(e).__name__}: {first}"
                fail(UnsupportedError, message, "jax-run")

    return run


def _held(x: Any) -> Any:
    """A result as a NumPy array, or keys of ours."""
    return const_value(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x)


def _is_inexact(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.is_inexact


def _zero_of(x: Any) -> np.ndarray:
    return np.zeros(x.shape, float0)
