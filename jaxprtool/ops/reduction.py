"""Reductions over axes."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments, of_elements
from jaxprtool.core.kinds.numbers import Axes
from jaxprtool.core.kinds.objects import Function
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
    "reduce",
    "argmax",
    "argmin",
]


@primitive
def reduce_sum(operand, *, axes: Axes, out_sharding: Sharding | None = shown(None)):
    """The sum of the elements along some axes, which are removed.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive
def reduce_max(operand, *, axes: Axes, out_sharding: Sharding | None = shown(None)):
    """The largest element along some axes, which are removed; NaN if any element is NaN.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive(like=reduce_max)
def reduce_min():
    """The smallest element along some axes, which are removed; NaN if any element is NaN."""


@primitive
def reduce_prod(operand, *, axes: Axes, out_sharding: Sharding | None = None):
    """The product of the elements along some axes, which are removed.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive
def reduce_and(operand, *, axes: Axes):
    """x & y & ... of the elements along some axes, which are removed; bitwise for integers.

    axes: the axes to reduce.
    """


@primitive(like=reduce_and)
def reduce_or():
    """x | y | ... of the elements along some axes, which are removed; bitwise for integers."""


@primitive(like=reduce_and)
def reduce_xor():
    """x ^ y ^ ... of the elements along some axes, which are removed; bitwise for integers."""


def _by_elements(avals: Sequence[Any], *, jaxpr: Any, **params: Any) -> Arguments:
    del params
    return of_elements(avals, jaxpr, len(avals) // 2)


@primitive(multiple_results=True, takes=_by_elements)
def reduce(
    *operands, computation: Function | None = shown(None), dimensions: Axes, jaxpr: ClosedJaxpr
):
    """jaxpr(... jaxpr(jaxpr(init, x), y) ..., z) for the elements x, y, ..., z along some axes,
    which are removed.

    The operands are n arrays of one shape, then their n scalar initial values init; there are n
    results.

    computation: the function that jaxpr was traced from, for JAX's own use.
    dimensions: the axes to reduce.
    jaxpr: (accumulated scalars, new scalars) -> accumulated scalars; associative.
    """


@primitive
def argmax(operand, *, axes: Axes, index_dtype: DType):
    """The index of the first largest element along an axis, which is removed; NaN counts as
    largest.

    axes: the axis, as a tuple with one element.
    index_dtype: the element type of the result, an integer type.
    """


@primitive(like=argmax)
def argmin():
    """The index of the first smallest element along an axis, removed; NaN counts as smallest."""
