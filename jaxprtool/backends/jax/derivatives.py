"""Values and derivatives of programs by JAX's own rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax.from_jax import const_value
from jaxprtool.backends.jax.function import FlatFunction
from jaxprtool.backends.jax.wide_types import has_wide_types
from jaxprtool.backends.numpy_eval import float0
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["WithJax", "jvp_with_jax", "values_with_jax", "vjp_with_jax"]


def values_with_jax(program: ClosedJaxpr) -> WithJax:
    """Return a program, compiled by JAX, as a function of its arguments and of no directions."""
    return WithJax(program, lambda flat, given, _: flat(*given))


def jvp_with_jax(program: ClosedJaxpr) -> WithJax:
    """Return `jax.jvp` of a program, compiled, as a function of its arguments and the tangents of the inexact ones.

    It returns the results, then the tangents of the inexact ones, ordered as by `driver.jvp`. It
    raises UnsupportedError where JAX does not accept the program, or refuses to differentiate it.
    """

    def derivative(flat: FlatFunction, given: list[Any], tangents: list[Any]) -> list[Any]:
        left = iter(tangents)
        pairs = zip(program.in_avals, given, strict=True)
        each = [next(left) if _is_inexact(a) else _zero_of(x) for a, x in pairs]
        outs, out_tangents = jax.jvp(flat, given, each)
        pairs = zip(program.out_avals, out_tangents, strict=True)
        return [*outs, *(t for a, t in pairs if _is_inexact(a))]

    return WithJax(program, derivative)


def vjp_with_jax(program: ClosedJaxpr) -> WithJax:
    """Return `jax.vjp` of a program, compiled, as a function of its arguments and the cotangents of
    its inexact results.

    It returns the results, then the cotangents of the inexact arguments, ordered as by
    `driver.vjp`. It raises as `jvp_with_jax`.
    """

    def derivative(flat: FlatFunction, given: list[Any], cotangents: list[Any]) -> list[Any]:
        outs, pullback = jax.vjp(flat, *given)
        left = iter(cotangents)
        pairs = zip(program.out_avals, outs, strict=True)
        found = pullback([next(left) if _is_inexact(a) else _zero_of(x) for a, x in pairs])
        pairs = zip(program.in_avals, found, strict=True)
        return [*outs, *(t for a, t in pairs if _is_inexact(a))]

    return WithJax(program, derivative)


class WithJax:
    """A function of a program's arguments and of directions, computed by JAX."""

    def __init__(
        self,
        program: ClosedJaxpr,
        function: Callable[[FlatFunction, list[Any], list[Any]], list[Any]],
    ):
        self._wide = has_wide_types(program)
        with jax.enable_x64(self._wide):
            self._flat = FlatFunction(program)
            self._compiled = jax.jit(functools.partial(function, self._flat))

    def __call__(self, args: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        """Return the values; raises UnsupportedError where JAX refuses."""

        def values(*given: Any) -> list[Any]:
            return [_held(x) for x in jax.block_until_ready(self._compiled(*given))]

        return self._done(values, args, directions)

    def check(self, args: Sequence[Any], directions: Sequence[Any]) -> None:
        """Raise UnsupportedError where JAX refuses the types, without computing a value."""
        self._done(self._compiled.eval_shape, args, directions)

    def _done(self, do: Callable[..., Any], args: Sequence[Any], directions: Sequence[Any]) -> Any:
        with jax.enable_x64(self._wide):
            given = self._flat.arguments(args), [*map(jax.numpy.asarray, directions)]
            try:
                return do(*given)
            except JaxprToolError:
                raise
            except (
                Exception
            ) as e:  # JAX's rules and its compiler are run here: any error is possible
                first = next(iter(str(e).strip().splitlines()), "")
                message = f"JAX does not take the program: {type(e).__name__}: {first}"
                fail(UnsupportedError, message, "jax-run")


def _held(x: Any) -> Any:
    """Return a result as a NumPy array, or keys of ours."""
    return const_value(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x)


def _is_inexact(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.is_inexact


def _zero_of(x: Any) -> np.ndarray:
    return np.zeros(x.shape, float0)
