"""The values of the example arguments (`--like`) of the function that was traced last in this thread.

A verb that is given no other values runs the function on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.jaxpr import Value, Var

__all__ = ["example_values", "offer_examples"]

_OFFERED: ContextVar[Sequence[Any]] = ContextVar("offered", default=())


def offer_examples(leaves: Sequence[Any]) -> None:
    """Keep the leaves of example arguments; leaves that are types have no values, and none are kept."""
    has_types = any(isinstance(x, AbstractType) or not _has_value(x) for x in leaves)
    _OFFERED.set(() if has_types else tuple(leaves))


def example_values(binders: Sequence[Var]) -> list[Value] | None:
    """Return the values of the example arguments for binders; None where there are none of their types."""
    leaves = _OFFERED.get()
    if not leaves or len(leaves) != len(binders):
        return None
    from jaxprtool.backends.numpy_eval import argument  # noqa: PLC0415 (gateway: NumPy)

    pairs = enumerate(zip(leaves, binders, strict=True))
    try:
        return [argument(x, v.aval, i, v.name, None) for i, (x, v) in pairs]
    except UsageError:
        return None


def _has_value(x: Any) -> bool:
    """Whether an object is a number or an array, not a description of one such as `jax.ShapeDtypeStruct`."""
    return isinstance(x, (bool, int, float, complex)) or hasattr(x, "__array__")
