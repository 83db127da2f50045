"""The slices of a batch that `vmap` makes, for JAX, which has no such primitives: calls of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.private import primitives

__all__ = ["BATCHED_SLICES", "call_jaxpr"]


def _batched_dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int]) -> Any:
    f: Callable[..., Any] = lambda x, *s: primitives.dynamic_slice_p.bind(  # noqa: E731
        x, *s, slice_sizes=tuple(slice_sizes)
    )
    n_own = x.ndim - len(slice_sizes)
    for i in reversed(range(starts[0].ndim)):
        f = jax.vmap(f, in_axes=(0 if i < n_own else None, *[0] * len(starts)))
    return f(x, *starts)


def _batched_dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    f: Callable[..., Any] = primitives.dynamic_update_slice_p.bind
    for _ in range(starts[0].ndim):
        f = jax.vmap(f)
    return f(x, update, *starts)


# Functions of JAX's for primitives that it does not have.
BATCHED_SLICES = {
    "random_gamma_grad": jax.lax.random_gamma_grad,
    "batched_dynamic_slice": _batched_dynamic_slice,
    "batched_dynamic_update_slice": _batched_dynamic_update_slice,
}


def call_jaxpr(name: str, in_avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The closed jaxpr of the function that stands for one of `BATCHED_SLICES`."""
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in in_avals]
    return jax.make_jaxpr(lambda *xs: BATCHED_SLICES[name](*xs, **params))(*structs)
