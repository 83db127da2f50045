"""Calls of JAX functions for primitives that JAX, or the installed release, does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp

from jaxprtool.backends.jax.primitives import has_primitive
from jaxprtool.backends.jax.private import primitives
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = ["call_jaxpr", "expand_dims", "is_called"]


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


def _high_product(x: Any, y: Any) -> Any:
    """Return the high half of a product, computed by products of half words."""
    dtype = x.dtype
    bits = jnp.iinfo(dtype).bits
    word = jnp.dtype(f"uint{bits}")
    half, low = word.type(bits // 2), word.type((1 << bits // 2) - 1)
    a, b = x.astype(word), y.astype(word)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    carried = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> half) + (carried >> half)
    if dtype != word:  # of two's complements
        high -= jnp.where(x < 0, b, 0) + jnp.where(y < 0, a, 0)
    return high.astype(dtype)


def _times_reflectors(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    """Return the product with the square orthogonal matrix that reflectors define."""
    rows, n = a.shape[-2], taus.shape[-1]
    batch = [(0, 0)] * (a.ndim - 2)
    square = jnp.pad(a[..., :n], [*batch, (0, 0), (0, rows - n)])
    q = jax.lax.linalg.householder_product(square, jnp.pad(taus, [*batch, (0, rows - n)]))
    q = jnp.conj(q.mT) if transpose else q
    return q @ c if left else c @ q


# By the names of our primitives: of those that no release has, and of those that came with one.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "batched_dynamic_slice": _batched_dynamic_slice,
    "batched_dynamic_update_slice": _batched_dynamic_update_slice,
    "random_gamma_grad": jax.lax.random_gamma_grad,
    "log2": lambda x, accuracy: jnp.log2(x),
    "mulhi": _high_product,
    "ormqr": _times_reflectors,
    "stack": lambda *xs, axis: jnp.stack(xs, axis),
    "tile": lambda x, reps: jnp.tile(x, reps),
    "unstack": lambda x, axis: jnp.unstack(x, axis=axis),
}


def is_called(name: str) -> bool:
    """Whether a primitive of ours is replaced by the call of a function beside the installed JAX."""
    return name in _FUNCTIONS and (name == "random_gamma_grad" or not has_primitive(name))


def call_jaxpr(name: str, in_avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the closed jaxpr of the function that replaces a primitive for which `is_called` holds."""
    return jax.make_jaxpr(lambda *xs: _FUNCTIONS[name](*xs, **params))(*in_avals)


def expand_dims(eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of the `broadcast_in_dim` that is equivalent to an `expand_dims`."""
    shape = eqn.out_binders[0].aval.shape
    new = {d % len(shape) for d in eqn.params["dimensions"]}
    kept = tuple(i for i in range(len(shape)) if i not in new)
    return {"shape": shape, "broadcast_dimensions": kept, "sharding": None}
