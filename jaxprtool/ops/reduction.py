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
    """The sum of the elements along some axes, which go away.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive
def reduce_max(operand, *, axes: Axes, out_sharding: Sharding | None = shown(None)):
    """The largest element along some axes, which go away; NaN if any is.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive(like=reduce_max)
def reduce_min():
    """The smallest element along some axes, which go away; NaN if any is."""


@primitive
def reduce_prod(operand, *, axes: Axes, out_sharding: Sharding | None = None):
    """The product of the elements along some axes, which go away.

    axes: the axes to reduce.
    out_sharding: the sharding of the result, or None.
    """


@primitive
def reduce_and(operand, *, axes: Axes):
    """The conjunction (bitwise for integers) of the elements along some axes, which go away.

    axes: the axes to reduce.
    """


@primitive(like=reduce_and)
def reduce_or():
    """The disjunction (bitwise for integers) of the elements along some axes, which go away."""


@primitive(like=reduce_and)
def reduce_xor():
    """The parity (bitwise for integers) of the elements along some axes, which go away."""


def _by_elements(avals: Sequence[Any], *, jaxpr: Any, **params: Any) -> Arguments:
    del params
    return of_elements(avals, jaxpr, len(avals) // 2)


@primitive(multiple_results=True, takes=_by_elements)
def reduce(
    *operands, computation: Function | None = shown(None), dimensions: Axes, jaxpr: ClosedJaxpr
):
    """The elements along some axes, which go away, reduced by a jaxpr, from initial values on.

    The operands are arrays of one shape, then a scalar for each, the initial values. There is a result for each array.

    computation: the function that jaxpr was traced from, for JAX's own use.
    dimensions: the axes to reduce.
    jaxpr: (accumulated scalars, new scalars) -> accumulated scalars; associative.
    """


@primitive
def argmax(operand, *, axes: Axes, index_dtype: DType):
    """The index of the first largest element along an axis, which goes away; of the first NaN if any.

    axes: the axis, as a tuple of one.
    index_dtype: the element type of the result, an integer one.
    """


@primitive(like=argmax)
def argmin():
    """The index of the first smallest element along an axis, which goes away; of the first NaN if any."""
