"""Reductions of windows that slide over an array, and their derivatives.

Windows lie on the array that has `base_dilation - 1` holes between its elements and `padding` around it; the holes and
the padding do not count.
"""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments, of_elements
from jaxprtool.core.kinds.enums import Selection
from jaxprtool.core.kinds.numbers import Padding, Shape, Strides
from jaxprtool.core.kinds.objects import Constants
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "reduce_window",
    "reduce_window_max",
    "reduce_window_min",
    "reduce_window_sum",
    "select_and_gather_add",
    "select_and_scatter",
    "select_and_scatter_add",
]

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


@primitive
def reduce_window_sum(
    operand,
    *,
    window_dimensions: Shape,
    window_strides: Strides,
    padding: Padding,
    base_dilation: Strides,
    window_dilation: Strides,
):
    """The sum of each window.

    window_dimensions: the size of the window along each axis.
    window_strides: the steps between windows.
    padding: (low, high) for each axis.
    base_dilation: how far apart the elements of the array are put.
    window_dilation: how far apart the elements of a window are.
    """


@primitive(like=reduce_window_sum)
def reduce_window_max():
    """The largest element of each window; NaN if any is."""


@primitive(like=reduce_window_sum)
def reduce_window_min():
    """The smallest element of each window; NaN if any is."""


def _by_elements(avals: Sequence[Any], *, jaxpr: Any, **params: Any) -> Arguments:
    del params
    return of_elements(avals, jaxpr, len(avals) // 2)


@primitive(multiple_results=True, takes=_by_elements)
def reduce_window(
    *operands,
    jaxpr: ClosedJaxpr,
    consts: Constants = shown(()),
    window_dimensions: Shape,
    window_strides: Strides,
    padding: Padding,
    base_dilation: Strides,
    window_dilation: Strides,
):
    """Each window reduced by a jaxpr, from initial values on.

    The operands are arrays of one shape, then a scalar for each, the initial values. There is a result for each array.

    jaxpr: (accumulated scalars, new scalars) -> accumulated scalars; associative.
    consts: the values of its constants.
    window_dimensions: the size of the window along each axis.
    window_strides: the steps between windows.
    padding: (low, high) for each axis.
    base_dilation: how far apart the elements of the arrays are put.
    window_dilation: how far apart the elements of a window are.
    """


@primitive
def select_and_scatter(
    operand,
    source,
    init_value,
    *,
    select_jaxpr: ClosedJaxpr,
    select_consts: Constants = shown(()),
    scatter_jaxpr: ClosedJaxpr,
    scatter_consts: Constants = shown(()),
    window_dimensions: Shape,
    window_strides: Strides,
    padding: Padding,
):
    """An array like `operand` of `init_value`s, to which each window's element of `source` is scattered.

    It goes to the place of the element of `operand` that its window selects.

    select_jaxpr: (selected scalar, new scalar) -> whether the selected one stays.
    select_consts: the values of its constants.
    scatter_jaxpr: (accumulated scalar, new scalar) -> accumulated scalar.
    scatter_consts: the values of its constants.
    window_dimensions: the size of the window along each axis.
    window_strides: the steps between windows.
    padding: (low, high) for each axis.
    """


@primitive
def select_and_scatter_add(
    source,
    operand,
    *,
    select_prim: Selection,
    window_dimensions: Shape,
    window_strides: Strides,
    padding: Padding,
):
    """An array like `operand`: each window adds its element of `source` where its extreme element is.

    select_prim: `ge` for the largest element of a window, `le` for the smallest; of equal ones the first.
    window_dimensions: the size of the window along each axis.
    window_strides: the steps between windows.
    padding: (low, high) for each axis.
    """


@primitive
def select_and_gather_add(
    tangents,
    operand,
    *,
    select_prim: Selection,
    window_dimensions: Shape,
    window_strides: Strides,
    padding: Padding,
    base_dilation: Strides,
    window_dilation: Strides,
):
    """For each window the element of `tangents` where the window's extreme element of `operand` is.

    select_prim: `ge` for the largest element of a window, `le` for the smallest; of equal ones the first.
    window_dimensions: the size of the window along each axis.
    window_strides: the steps between windows.
    padding: (low, high) for each axis.
    base_dilation: how far apart the elements of the arrays are put.
    window_dilation: how far apart the elements of a window are.
    """
