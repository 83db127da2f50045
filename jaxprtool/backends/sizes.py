"""Arithmetic of symbolic dimensions (`2*a + 1`): identities that hold for any numbers; JAX computes the rest."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.diagnostics import JaxprToolError

__all__ = ["dim_arithmetic"]

Operator = Callable[[Any, Any], Any]

# JAX multiplies polynomials out: the time that it takes for a short text may be long.
_LONGEST = 120
_HIGH_POWER = re.compile(r"\^\s*(?:[4-9]|\d\d)")


@functools.lru_cache(maxsize=1 << 12)
def dim_arithmetic(op: Operator, a: int | SymbolicDim, b: int | SymbolicDim) -> Any:
    """Return `a op b`, where at least one is a symbolic dimension.

    Args:
      op: an operator of two numbers, `operator.add` or `divmod`.

    Returns:
      A number, a dimension, a boolean, or a pair for `divmod`; None where the result is not known:
        it depends on the sizes, JAX is not installed, or the polynomials are too large.
    """
    found = _of_any_numbers(op, a, b)
    if found is not None:
        return found
    if max(len(str(a)), len(str(b))) > _LONGEST or _HIGH_POWER.search(f"{a} {b}"):
        return None
    try:
        from jaxprtool.backends.jax.objects import symbolic_dim  # noqa: PLC0415 (gateway: 500 ms)
    except (ImportError, JaxprToolError):
        return None
    try:
        return _ours(
            op(*(symbolic_dim(str(x)) if isinstance(x, SymbolicDim) else x for x in (a, b)))
        )
    except Exception:
        return None


def _ours(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_ours, value))
    return value if isinstance(value, (bool, int)) else SymbolicDim(str(value))


def _of_any_numbers(op: Operator, a: Any, b: Any) -> Any:
    """Return the result where it holds for any numbers: `n + 0`, `n - n`, `n < n`."""
    if a == b:
        same = {operator.lt: False, operator.gt: False, operator.le: True, operator.ge: True}
        return {**same, operator.sub: 0, operator.floordiv: 1, operator.mod: 0}.get(op)
    if (op is operator.add and b == 0) or (op is operator.mul and b == 1):
        return a
    if (op is operator.add and a == 0) or (op is operator.mul and a == 1):
        return b
    return a if (op is operator.sub and b == 0) or (op is operator.floordiv and b == 1) else None
