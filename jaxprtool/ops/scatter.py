"""`scatter` and its variants: arrays whose slices at positions that are operands are changed."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments, of_elements
from jaxprtool.core.kinds.dimension_numbers import ScatterNumbers
from jaxprtool.core.kinds.enums import IndexMode
from jaxprtool.core.kinds.objects import Constants
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import Record, Word

__all__ = [
    "ScatterDimensionNumbers",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]

_DROP = Word("GatherScatterMode.FILL_OR_DROP")


def ScatterDimensionNumbers(
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    scatter_indices_batching_dims: Sequence[int] = (),
) -> Record:
    """Return the value of the param `dimension_numbers` of `scatter`, whose docstring explains the
    fields.
    """
    return Record(
        "ScatterDimensionNumbers",
        (),
        update_window_dims=tuple(update_window_dims),
        inserted_window_dims=tuple(inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(scatter_dims_to_operand_dims),
        operand_batching_dims=tuple(operand_batching_dims),
        scatter_indices_batching_dims=tuple(scatter_indices_batching_dims),
    )


def _by_elements(avals: Sequence[Any], *, update_jaxpr: Any, **params: Any) -> Arguments:
    del params
    return of_elements(avals, update_jaxpr, 1)


@primitive(takes=_by_elements)
def scatter(
    operand,
    scatter_indices,
    updates,
    *,
    dimension_numbers: ScatterNumbers,
    mode: IndexMode = shown(_DROP),
    unique_indices: bool = shown(False),
    indices_are_sorted: bool = shown(False),
    update_jaxpr: ClosedJaxpr | None = shown(None),
    update_consts: Constants = shown(()),
):
    """operand, where out[start(b) + w] = updates[b, w] for each vector scatter_indices[b, :], in
    order.

    The fields of dimension_numbers say which axes these are:
      scatter_dims_to_operand_dims: component k of the vector is the start along axis
        scatter_dims_to_operand_dims[k] of operand; the start along all other axes is 0.
      update_window_dims: the axes w of updates, along which the slices lie; the other axes are b.
      inserted_window_dims: the axes of operand that the slices in updates lack; their size there is
        1.
      operand_batching_dims, scatter_indices_batching_dims: pairs of axes of operand and
      scatter_indices
        with the same position: slice b is written to operand at that position.

    dimension_numbers: a `ScatterDimensionNumbers`.
    mode: what happens to slices that do not lie within operand.
      `GatherScatterMode.CLIP` moves them until they do, `FILL_OR_DROP` leaves them out,
      `PROMISE_IN_BOUNDS` is a promise that there are none.
    unique_indices: a promise that no element of operand is changed twice.
    indices_are_sorted: a promise that the vectors are in ascending order.
    update_jaxpr: (old element, update) -> new element; None for the operation of the primitive.
    update_consts: the constants of update_jaxpr.
    """


@primitive(name="scatter-add", like=scatter)
def scatter_add():
    """operand, where out[start(b) + w] += updates[b, w] for each vector scatter_indices[b, :]."""


@primitive(name="scatter-sub", like=scatter)
def scatter_sub():
    """operand, where out[start(b) + w] -= updates[b, w] for each vector scatter_indices[b, :]."""


@primitive(name="scatter-mul", like=scatter)
def scatter_mul():
    """operand, where out[start(b) + w] *= updates[b, w] for each vector scatter_indices[b, :]."""


@primitive(name="scatter-min", like=scatter)
def scatter_min():
    """operand, where out[start(b) + w] = min(out[start(b) + w], updates[b, w]) for each vector
    b.
    """


@primitive(name="scatter-max", like=scatter)
def scatter_max():
    """operand, where out[start(b) + w] = max(out[start(b) + w], updates[b, w]) for each vector
    b.
    """
