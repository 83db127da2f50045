"""Arrays with slices changed at positions that are values."""

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
    """The dimension numbers of a scatter; see there."""
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
    """operand with a slice replaced for each vector of scatter_indices (along its last axis), in their order.

    dimension_numbers: `ScatterDimensionNumbers`. scatter_dims_to_operand_dims: the operand's axes that the
      components of a vector are for. update_window_dims: the axes of updates along which a slice lies.
      inserted_window_dims: the axes of operand that a slice lacks, being of size 1. operand_batching_dims,
      scatter_indices_batching_dims: axes that operand and scatter_indices have in common.
    mode: `GatherScatterMode.CLIP`: slices are moved to lie within operand; `FILL_OR_DROP`: those that do
      not are left out; `PROMISE_IN_BOUNDS`: there are none such.
    unique_indices: a promise that no element is changed twice.
    indices_are_sorted: a promise that the vectors are in ascending order.
    update_jaxpr: (old element, update) -> new element; None for what the name says.
    update_consts: the constants of update_jaxpr.
    """


@primitive(name="scatter-add", like=scatter)
def scatter_add():
    """operand with the updates added to its slices."""


@primitive(name="scatter-sub", like=scatter)
def scatter_sub():
    """operand with the updates subtracted from its slices."""


@primitive(name="scatter-mul", like=scatter)
def scatter_mul():
    """operand with its slices multiplied by the updates."""


@primitive(name="scatter-min", like=scatter)
def scatter_min():
    """operand with the smaller of each element and its updates."""


@primitive(name="scatter-max", like=scatter)
def scatter_max():
    """operand with the larger of each element and its updates."""
