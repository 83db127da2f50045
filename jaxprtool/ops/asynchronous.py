"""Collectives in two steps: one that starts the exchange and gives a future, one that waits for its value."""

from __future__ import annotations

from typing import Any

from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ops.parallel import acts_along

__all__ = [
    "all_gather_done",
    "all_gather_start",
    "all_to_all_done",
    "all_to_all_start",
    "pbroadcast_done",
    "pbroadcast_start",
    "ppermute_done",
    "ppermute_start",
    "psum_done",
    "psum_invariant_start",
    "psum_start",
    "reduce_scatter_done",
    "reduce_scatter_start",
]


@primitive
def psum_start(operand, *, axes: tuple[Any, ...], axis_index_groups: Any = shown(None)):
    """Starts a `psum`.

    axes: names, and numbers of positional axes.
    axis_index_groups: groups of members that are summed separately, or None.
    """


@primitive
def psum_invariant_start(operand, *, axes: tuple[Any, ...]):
    """Starts a `psum_invariant`.

    axes: names, along which operand varies.
    """


@primitive
def ppermute_start(operand, *, axis_name: Any, perm: Any):
    """Starts a `ppermute`.

    axis_name: the axis.
    perm: pairs (source, destination).
    """


@primitive
def pbroadcast_start(operand, *, axis_name: Any, source: int):
    """Starts a `pbroadcast`.

    axis_name: the axis.
    source: the index of the member.
    """


@primitive
def all_gather_start(
    operand,
    *,
    axis_name: Any,
    axis_size: int,
    all_gather_dimension: int = shown(0),
    axis_index_groups: Any = shown(None),
    tiled: bool = shown(False),
):
    """Starts an `all_gather`.

    axis_name: the axis.
    axis_size: the number of members (of a group).
    all_gather_dimension: the dimension of the result to stack along, or to concatenate along.
    axis_index_groups: groups of members that exchange separately, or None.
    tiled: whether to concatenate instead of stacking.
    """


@primitive
def all_to_all_start(
    operand,
    *,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    axis_index_groups: Any = shown(None),
    tiled: bool = shown(False),
):
    """Starts an `all_to_all`.

    axis_name: the axis.
    split_axis: the dimension of operand that is cut into a part for each member.
    concat_axis: the dimension of the result along which the parts stand.
    axis_index_groups: groups of members that exchange separately, or None.
    tiled: how the call was spelt; it makes no difference.
    """


@primitive
def reduce_scatter_start(
    operand,
    *,
    axis_name: Any,
    axis_size: int,
    scatter_dimension: int = shown(0),
    axis_index_groups: Any = shown(None),
    tiled: bool = shown(False),
):
    """Starts a `reduce_scatter`.

    axis_name: the axis.
    axis_size: the number of members (of a group).
    scatter_dimension: the dimension that is cut into parts; it goes away unless tiled.
    axis_index_groups: groups of members that are summed separately, or None.
    tiled: whether the parts keep the dimension.
    """


@primitive
def psum_done(future):
    """The value of a future that `psum_start` or `psum_invariant_start` gave."""


@primitive
def ppermute_done(future):
    """The value of a future that `ppermute_start` gave."""


@primitive
def pbroadcast_done(future):
    """The value of a future that `pbroadcast_start` gave."""


@primitive
def all_gather_done(future):
    """The value of a future that `all_gather_start` gave."""


@primitive
def all_to_all_done(future):
    """The value of a future that `all_to_all_start` gave."""


@primitive
def reduce_scatter_done(future):
    """The value of a future that `reduce_scatter_start` gave."""


acts_along("axes", psum_start, psum_invariant_start)
acts_along(
    "axis_name",
    ppermute_start,
    pbroadcast_start,
    all_gather_start,
    all_to_all_start,
    reduce_scatter_start,
)
