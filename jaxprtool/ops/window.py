"""Reductions of windows that slide over an array, and the primitives of their derivatives.

First, base_dilation - 1 gaps are put between neighbouring elements of the array, and padding around
it. Window i consists of the positions i * window_strides + k * window_dilation, for k <
window_dimensions, along each axis. Gaps and padding are not elements of a window.
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
    """out[i] = sum of the elements of window i of operand.

    window_dimensions: the number of elements of a window along each axis.
    window_strides: the step from one window to the next along each axis.
    padding: (low, high) for each axis.
    base_dilation: the distance of neighbouring elements of operand along each axis.
    window_dilation: the distance of neighbouring elements of a window along each axis.
    """


@primitive(like=reduce_window_sum)
def reduce_window_max():
    """out[i] = max of the elements of window i of operand; NaN if any of them is NaN."""


@primitive(like=reduce_window_sum)
def reduce_window_min():
    """out[i] = min of the elements of window i of operand; NaN if any of them is NaN."""


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
    """out[i] = jaxpr(... jaxpr(jaxpr(init, x), y) ..., z) for the elements x, y, ..., z of window
    i.

    The operands are n arrays of one shape, then their n scalar initial values init; there are n
    results.

    jaxpr: (accumulated scalars, new scalars) -> accumulated scalars; associative.
    consts: the constants of jaxpr.
    window_dimensions: the number of elements of a window along each axis.
    window_strides: the step from one window to the next along each axis.
    padding: (low, high) for each axis.
    base_dilation: the distance of neighbouring elements of the arrays along each axis.
    window_dilation: the distance of neighbouring elements of a window along each axis.
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
    """out = init_value everywhere; then for each window i: out[p] = scatter(out[p], source[i]).

    p is the position of the element of operand that is selected in window i; out has the shape of
    operand.

    select_jaxpr: (selected scalar, new scalar) -> True if the selected one remains selected.
    select_consts: the constants of select_jaxpr.
    scatter_jaxpr: scatter: (accumulated scalar, new scalar) -> accumulated scalar.
    scatter_consts: the constants of scatter_jaxpr.
    window_dimensions: the number of elements of a window along each axis.
    window_strides: the step from one window to the next along each axis.
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
    """out = 0 everywhere; then for each window i: out[p] += source[i].

    p is the position of the largest or smallest element of operand in window i; out has the shape
    of operand. This is the transpose of the derivative of `reduce_window_max` and
    `reduce_window_min`.

    select_prim: `ge` for the largest element of a window, `le` for the smallest; first if equal.
    window_dimensions: the number of elements of a window along each axis.
    window_strides: the step from one window to the next along each axis.
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
    """out[i] = tangents[p], where p is the position of the largest or smallest element of operand
    in window i.

    This is the derivative of `reduce_window_max` and `reduce_window_min`.

    select_prim: `ge` for the largest element of a window, `le` for the smallest; first if equal.
    window_dimensions: the number of elements of a window along each axis.
    window_strides: the step from one window to the next along each axis.
    padding: (low, high) for each axis.
    base_dilation: the distance of neighbouring elements of the arrays along each axis.
    window_dilation: the distance of neighbouring elements of a window along each axis.
    """
