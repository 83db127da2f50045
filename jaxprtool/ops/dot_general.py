"""The general contraction of two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.primitive import param, primitive
from jaxprtool.ir.dtypes import DType

__all__ = ["dot_general"]

Pair = tuple[tuple[int, ...], tuple[int, ...]]
Numbers = tuple[Pair, Pair]


def _as_tuples(value: Any, out_avals: Sequence[Any]) -> Any:
    """Dimension numbers, in which a text may have lists, with tuples."""
    del out_avals
    return _tuples(value) if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _as_lists(numbers: Any) -> Any:
    """Dimension numbers with the inner tuples as lists, which is how JAX prints them."""
    if not isinstance(numbers, tuple):  # a value that cannot be read
        return numbers
    return tuple(
        tuple(list(axes) if isinstance(axes, tuple) else axes for axes in pair)
        if isinstance(pair, tuple)
        else pair
        for pair in numbers
    )


@primitive
def dot_general(
    lhs,
    rhs,
    *,
    dimension_numbers: Numbers = param(recover=_as_tuples, spelled=_as_lists),
    precision: Any = None,
    preferred_element_type: DType | None = None,
    out_sharding: Any = param(None, hidden="always"),
):
    """out[b, i, j] = sum over c of lhs[b, i, c] * rhs[b, j, c], for any position of the axes.

    The result has the batch axes, then the rest of lhs, then the rest of rhs.

    dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)) axes.
    precision: how exact the multiplication of low-precision hardware has to be, or None.
    preferred_element_type: the element type of the result, or None for that of the operands.
    out_sharding: the sharding of the result, or None.
    """
