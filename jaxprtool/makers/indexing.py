"""Windows at positions that are operands: helpers of the rules of gather and scatter.

A gather reads, and a scatter writes, one window for each vector of an index array. Their dimension numbers have the same
meaning under different names; `Windows` has one name for each. Three arrays take part: the operand, the
indices, and the windows (a gather's result, a scatter's updates).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import INDEX_MODE
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.stage import stage_shared
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32, DType
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.makers.axes import bumped, inserted
from jaxprtool.stablehlo.text import int_list

__all__ = [
    "CLIP",
    "CLIP_MODE",
    "DROP_MODE",
    "FILL_OR_DROP",
    "IN_BOUNDS",
    "Windows",
    "batched_indices",
    "batched_operand",
    "check_windows",
    "gather_windows",
    "mode_of",
    "scatter_added",
    "scatter_combined",
    "stablehlo_numbers",
    "update_jaxpr_of",
    "without_promises",
    "window_sizes",
    "wide_indices",
    "windows_of",
    "with_indices_of_batches",
]


class Windows(NamedTuple):
    """Dimension numbers, with a gather's names in parentheses.

    Attributes:
      window: axes of the windows array that lie within a window, ascending (offset_dims).
      collapsed: axes of operand that the windows array lacks, ascending (collapsed_slice_dims).
      start_map: for each component of an index vector the axis of operand that it indexes
        (start_index_map).
      operand_batch: axes of operand that are batch axes, paired with `index_batch`.
      index_batch: axes of the indices that are batch axes.
    """

    window: tuple[int, ...]
    collapsed: tuple[int, ...]
    start_map: tuple[int, ...]
    operand_batch: tuple[int, ...] = ()
    index_batch: tuple[int, ...] = ()

    def gather_numbers(self) -> Record:
        """Return the param of a gather."""
        return lax.GatherDimensionNumbers(*self)

    def scatter_numbers(self) -> Record:
        """Return the param of a scatter."""
        return lax.ScatterDimensionNumbers(*self)

    def batch_positions(self, n: int) -> list[int]:
        """Return the positions in the windows array of the indices' first n axes, those other than the vector axis."""
        return [i for i in range(n + len(self.window)) if i not in self.window]


FIELDS = {
    "gather": (
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    ),
    "scatter": (
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "operand_batching_dims",
        "scatter_indices_batching_dims",
    ),
}


def windows_of(kind: str, numbers: Any, name: str = "") -> Windows:
    """Return the dimension numbers in a param of a `gather` or `scatter`; older ones have no batching axes.

    `name` is the name of the primitive for messages, where it is not `kind`.
    """
    first = FIELDS[kind]
    fields = getattr(numbers, "fields", None)
    if fields is None or any(f not in fields for f in first[:3]):
        record = f"{kind.capitalize()}DimensionNumbers"
        ill_typed(
            f"{name or kind} dimension_numbers {numbers} are no {record}", "dimension-numbers"
        )
    return Windows(*[tuple(fields.get(f, ())) for f in first])


# -- modes -----------------------------------------------------------------------------------------

CLIP, FILL_OR_DROP, IN_BOUNDS = "CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"
CLIP_MODE, DROP_MODE = INDEX_MODE.word(CLIP), INDEX_MODE.word(FILL_OR_DROP)


def mode_of(name: str, mode: Any) -> str:
    """Return how windows outside of the operand are treated: one of the constants above."""
    return INDEX_MODE.required(name, "mode", mode)


# -- types -----------------------------------------------------------------------------------------


def check_windows(name: str, kind: str, w: Windows, operand: Value, indices: Value) -> None:
    """Reject dimension numbers that do not fit the operand's and the indices' types."""
    fields = FIELDS[kind]

    def wrong(i: int, rule: str) -> None:
        ill_typed(f"{name} {fields[i]} {w[i]} {rule}", "dimension-numbers")

    if not indices.dtype.is_integer:
        ill_typed(f"{name} needs indices of an integer type, got {indices}", "operand-types")
    n_batch = indices.ndim - 1
    if n_batch < 0:
        ill_typed(f"{name} needs indices of rank 1 or more, got {indices}", "operand-shapes")
    bounds = (n_batch + len(w.window), operand.ndim, operand.ndim, operand.ndim, n_batch)
    for i, (axes, bound) in enumerate(zip(w, bounds, strict=True)):
        if any(not 0 <= a < bound for a in axes):
            wrong(i, f"has an axis out of range [0, {bound})")
        if len(set(axes)) != len(axes):
            wrong(i, "names an axis twice")
        if i in (0, 1, 3) and list(axes) != sorted(axes):
            wrong(i, "is not in ascending order")
    for i in (1, 2):
        if set(w[i]) & set(w.operand_batch):
            wrong(i, f"has an axis of operand_batching_dims {w.operand_batch}")
    if len(w.start_map) != indices.shape[-1]:
        wrong(2, f"needs as many axes as an index vector of {indices} has components")
    if len(w.operand_batch) != len(w.index_batch):
        wrong(3, f"and {fields[4]} {w.index_batch} differ in number")
    for a, b in zip(w.operand_batch, w.index_batch, strict=True):
        if operand.shape[a] != indices.shape[b]:
            wrong(3, f"and {fields[4]} {w.index_batch} differ in size: {operand} and {indices}")
    if len(w.window) + len(w.collapsed) + len(w.operand_batch) != operand.ndim:
        wrong(0, f"and {fields[1]} {w.collapsed} do not account for the axes of {operand}")


def window_sizes(w: Windows, ndim: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the size of a window along each axis of the operand, given the shape of the windows array."""
    own = iter(w.window)
    absent = {*w.collapsed, *w.operand_batch}
    return tuple([1 if i in absent else shape[next(own)] for i in range(ndim)])


# -- operations ------------------------------------------------------------------------------------


def without_promises(in_avals: Any, params: Any) -> bool:
    """The rule `determined` of an operation whose params promise something about its indices.

    False where they do, since random indices would break the promises.
    """
    del in_avals
    return not (params["unique_indices"] or params["indices_are_sorted"])


@functools.cache
def update_jaxpr_of(op: Any, dtype: DType) -> Value:
    """Return the jaxpr of a binary operation on scalars of a type, a param of scatters."""
    scalar = ShapedArray((), dtype)
    return stage_shared(lambda x, y: [op(x, y)], [scalar, scalar])


def scatter_added(
    operand: Value, indices: Value, updates: Any, w: Windows, **params: ParamValue
) -> Value:
    """Return operand with updates added."""
    return scatter_combined(lax.scatter_add, lax.add, operand, indices, updates, w, **params)


def scatter_combined(
    scatter: Any,
    op: Any,
    operand: Value,
    indices: Value,
    updates: Any,
    w: Windows,
    **params: ParamValue,
) -> Value:
    """Return operand with its elements combined with updates by an operation, by the scatter of that operation."""
    return scatter(
        operand,
        indices,
        updates,
        dimension_numbers=w.scatter_numbers(),
        update_jaxpr=update_jaxpr_of(op, get_aval(operand).dtype),
        **params,
    )


def gather_windows(
    operand: Value,
    indices: Value,
    w: Windows,
    updates: Any,
    mode: Any = None,
    fill_value: Any = None,
) -> Value:
    """Gather the windows of operand to which a scatter would write `updates`, an array or its type."""
    sizes = window_sizes(w, get_aval(operand).ndim, get_aval(updates).shape)
    params: dict[str, Any] = {}
    if mode is not None:
        params["mode"] = mode
        if mode_of("gather", mode) == FILL_OR_DROP:
            params["fill_value"] = fill_value
    return lax.gather(
        operand, indices, dimension_numbers=w.gather_numbers(), slice_sizes=sizes, **params
    )


# -- batching --------------------------------------------------------------------------------------


def batched_operand(w: Windows, dim: int) -> tuple[Windows, int]:
    """Return the numbers for an operand with one more axis, `dim`, which lies whole in each window.

    Also returns the position of that axis in the windows array.
    """
    absent = {*w.collapsed, *w.operand_batch}
    before = sum(i not in absent for i in range(dim))
    at = w.window[before - 1] + 1 if before else 0
    wider = _bump_operand(w, dim)
    return wider._replace(window=inserted(bumped(w.window, at), before, at)), at


def _bump_operand(w: Windows, dim: int) -> Windows:
    return w._replace(
        collapsed=bumped(w.collapsed, dim),
        start_map=bumped(w.start_map, dim),
        operand_batch=bumped(w.operand_batch, dim),
    )


def batched_indices(
    w: Windows, dim: int, n_batch: int, operand_dim: int | None
) -> tuple[Windows, int]:
    """Return the numbers for indices with one more axis, `dim`, and the position of that axis in the windows array.

    Args:
      n_batch: the number of the indices' axes before, without the vector axis.
      operand_dim: the axis of operand paired with the new one, if operand has such an axis.
    """
    positions = [*w.batch_positions(n_batch), n_batch + len(w.window)]
    at = positions[dim] if dim else 0
    if operand_dim is not None:
        w = _bump_operand(w, operand_dim)
    index_batch, operand_batch = bumped(w.index_batch, dim), w.operand_batch
    if operand_dim is not None:
        place = sum(a < operand_dim for a in operand_batch)
        operand_batch = inserted(operand_batch, place, operand_dim)
        index_batch = inserted(index_batch, place, dim)
    window = bumped(w.window, at)
    return w._replace(window=window, operand_batch=operand_batch, index_batch=index_batch), at


def with_indices_of_batches(w: Windows, indices: Value) -> tuple[Windows, Value]:
    """Return numbers without batch axes, and indices that have those of the operand's batch axes too: the positions
    along the paired axes.
    """
    aval = get_aval(indices)
    dtype = aval.dtype if aval.dtype.bits >= 32 else INT32  # it represents every position
    shape, last = (*aval.shape[:-1], 1), aval.ndim - 1
    along = [lax.iota(dtype=dtype, shape=shape, dimension=a, sharding=None) for a in w.index_batch]
    if dtype != aval.dtype:
        indices = lax.convert_element_type(indices, dtype)
    collapsed = tuple(sorted((*w.collapsed, *w.operand_batch)))
    numbers = Windows(w.window, collapsed, (*w.operand_batch, *w.start_map))
    return numbers, lax.concatenate(*along, indices, dimension=last)


# -- StableHLO -------------------------------------------------------------------------------------


def wide_indices(ctx: LoweringContext, indices: HloValue) -> HloValue:
    """Convert the indices to a type that can represent every bound they are compared with."""
    return ctx.convert(indices, INT32) if indices.aval.dtype.bits < 32 else indices


def stablehlo_numbers(kind: str, w: Windows, n_batch: int) -> str:
    """Return the attribute of dimension numbers, for indices of rank n_batch + 1."""
    window, collapsed, start_map, operand_batch, index_batch = FIELDS[kind]
    if kind == "scatter":
        operand_batch = "input_batching_dims"
    fields = (
        (window, w.window),
        (collapsed, w.collapsed),
        (operand_batch, w.operand_batch),
        (index_batch, w.index_batch),
        (start_map, w.start_map),
    )
    parts = [f"{name} = {int_list(axes)}" for name, axes in fields if axes]
    return f"#stablehlo.{kind}<{', '.join([*parts, f'index_vector_dim = {n_batch}'])}>"
