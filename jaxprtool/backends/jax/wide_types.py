"""64-bit types, which JAX converts to 32-bit ones unless `jax_enable_x64` is on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns

__all__ = ["has_wide_types", "with_wide_types"]

_WIDE = frozenset({"int64", "uint64", "float64", "complex128"})


def has_wide_types(program: ClosedJaxpr) -> bool:
    """Whether a value of a program, in inner jaxprs too, has a 64-bit type (or a complex type of such parts)."""
    return _HAS.of(program.jaxpr, lambda: _has(program.jaxpr))


_HAS = Memo[bool]("whether there are 64-bit types")


def _has(jaxpr: Jaxpr) -> bool:
    binders = [*jaxpr.const_binders, *jaxpr.in_binders]
    inner = (v for eqn in all_eqns(jaxpr) for v in (*eqn.inputs, *eqn.out_binders))
    return any(_is_wide(v.aval) for group in (binders, inner) for v in group)


def _is_wide(aval: Any) -> bool:
    aval = getattr(aval, "inner", aval)
    return isinstance(aval, ShapedArray) and aval.dtype.name in _WIDE


def with_wide_types(where: Sequence[Any] | ClosedJaxpr) -> Any:
    """Return a context with 64-bit types on, where some types (ours or JAX's) or a program need them.

    Neither keys nor pairs of 32-bit floats need them.
    """
    if isinstance(where, ClosedJaxpr):
        wide = has_wide_types(where)
    else:
        wide = any(getattr(getattr(a, "dtype", None), "name", "") in _WIDE for a in where)
    return jax.enable_x64(True) if wide else contextlib.nullcontext()
