"""Convert our types, element types and literals to JAX's."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.kernels import memory_space
from jaxprtool.backends.jax.objects import symbolic_dim
from jaxprtool.backends.jax.placement import placed_aval
from jaxprtool.backends.jax.primitives import key_generator
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.interpreters.evaluation.missing_values import check_literal
from jaxprtool.ir.avals import AbstractToken, FutureType, RefType, ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Lit

__all__ = ["NO_MESH", "jax_aval", "jax_dtype", "jax_literal"]


def jax_dtype(dtype: DType) -> Any:
    """Return an element type as JAX's: for keys the extended one. Raises UnsupportedError."""
    if dtype.kind == "k":
        return jax.eval_shape(lambda: jax.random.key(0, impl=key_generator(dtype).name)).dtype
    return np_dtype(dtype)


_MEMORIES = ("", "host")
NO_MESH = "jax.set_mesh(mesh) says which mesh it is"


@functools.lru_cache(4096)
def jax_aval(aval: Any, mesh: Any = None) -> Any:
    """Convert a type to JAX's, on a mesh where types are on one."""
    if isinstance(aval, AbstractToken):
        return private.ABSTRACT_TOKEN
    if isinstance(aval, FutureType):
        return private.future_type(jax_aval(aval.inner, mesh))
    if isinstance(aval, RefType):
        space = memory_space(aval.space) if aval.space else None
        if space is not None or not aval.space:
            return private.AbstractRef(jax_aval(aval.inner, mesh), space)
    if isinstance(aval, ShapedArray) and aval.memory in _MEMORIES and aval.dtype.kind != "?":
        shape = tuple([_size(d) for d in aval.shape])
        dtype, on_host = jax_dtype(aval.dtype), aval.memory == "host"
        if mesh is not None:
            try:
                return placed_aval(aval, shape, dtype, on_host, mesh)
            except ValueError as e:
                message = f"the type {aval} is not on the mesh {mesh}: {e}"
                fail(UnsupportedError, message, "opaque-type")
        if not (aval.spec or aval.vary):
            return private.array_type(shape, dtype, aval.weak_type, on_host=on_host)
    help = NO_MESH if getattr(aval, "spec", ()) or getattr(aval, "vary", "") else ""
    fail(UnsupportedError, f"the type {aval} cannot be handed to JAX", "opaque-type", help=help)


def _size(d: Any) -> Any:
    """A size as JAX's."""
    return symbolic_dim(str(d)) if isinstance(d, SymbolicDim) else d


_SCALARS: dict[str, Any] = {"i": int, "u": int, "f": float, "c": complex}


def jax_literal(x: Lit) -> Any:
    """Convert a literal to JAX's.

    A weak one is a Python scalar, which may have more digits than its type. Text does not say which
    are weak, but a number that its type cannot represent exactly is.
    """
    aval, dtype = x.aval, np_dtype(x.aval.dtype)
    if aval.dtype.kind == "0":
        return private.Literal(np.zeros(aval.shape, dtype), jax_aval(aval))
    check_literal(x, UnsupportedError, code="no-constant")
    array = np.asarray(x.val, dtype)
    if array.shape:
        return private.Literal(array, jax_aval(aval))
    kind = _SCALARS.get(aval.dtype.kind)
    if kind is None:
        return private.Literal(bool(x.val) if aval.weak_type else array[()], jax_aval(aval))
    if not aval.weak_type and (kind is int or not _has_more_digits(array, x.val)):
        return private.Literal(array[()], jax_aval(aval))
    value = private.typed_scalar(kind(x.val), dtype, aval.dtype.kind)
    return private.Literal(value, jax_aval(aval.update(weak_type=True)))


def _has_more_digits(array: Any, value: Any) -> bool:
    """Whether a Python number differs from its value in an array of its type."""
    item = array.item()
    return isinstance(item, (float, complex)) and item != value and value == value
