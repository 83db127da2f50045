"""Elements at arrays of positions: `x[i]`, `numpy.take`, `numpy.take_along_axis`, and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.trace import Tracer, scalar_lit
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.dtypes import INT64
from jaxprtool.ops import binary, comparison, joining, select, shape, sorting
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    broadcast_shapes,
    broadcast_to,
    dtype_of_value,
    promote_dtypes,
    shape_of,
)
from jaxprtool.ops.arrays.reductions import normalize_axis
from jaxprtool.ops.arrays.shaping import expand_dims, ravel
from jaxprtool.ops.gather import GatherDimensionNumbers, gather

__all__ = ["TAKING", "is_index_array", "is_traced", "pick", "wrapped"]


def is_traced(x: Any) -> bool:
    """Whether the value is not known."""
    return isinstance(x, Tracer) and x.full_lower() is x


def is_index_array(x: Any) -> bool:
    """Whether x is an array of rank 1 or more of integers."""
    return bool(getattr(x, "shape", ())) and dtype_of_value(x).is_integer


def wrapped(index: Any, size: int) -> Any:
    """Positions along an axis of this size; negative ones count from the end.

    Raises:
      IndexError: a position that is known is out of bounds.
    """
    if not is_traced(index):
        return _known(index.full_lower() if isinstance(index, Tracer) else index, size)
    dtype = dtype_of_value(index)
    if dtype.kind == "u":
        return index
    if size >> (dtype.bits - 1):
        index, dtype = as_dtype(index, INT64), INT64
    from_end = binary.add(index, scalar_lit(size, dtype))
    return select.select_n(comparison.lt(index, scalar_lit(0, dtype)), index, from_end)


def _known(index: Any, size: int) -> Any:
    if type(index) is not int:
        if not dtype_of_value(index).is_integer:
            fail(
                UsageError,
                f"positions are integers, and these are {dtype_of_value(index)}",
                "index",
            )
        index = index.astype("int32" if size < 1 << 31 else "int64")
    for i in (index,) if type(index) is int else _extent(index):
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of bounds for a dimension of size {size}")
    return index + (index < 0) * size


def _extent(index: Any) -> list[int]:
    """The least and the greatest of some positions."""
    return [int(index.min()), int(index.max())] if index.size else []


def pick(x: Any, axes: Sequence[int], positions: Sequence[Any], at: int) -> Any:
    """x at positions along axes, the other axes being kept.

    Args:
      x: the array.
      axes: the axes to index, ascending; they go away.
      positions: for each an array of integers, or one; they broadcast together.
      at: where the axes of the positions are among those that are kept.
    """
    sizes = shape_of(x)
    found = [wrapped(p, sizes[a]) for a, p in zip(axes, positions, strict=True)]
    batch = broadcast_shapes(*map(shape_of, found))
    dtype = dtype_of_value(found[0])
    for p in found:
        dtype = promote_dtypes(dtype, dtype_of_value(p))
    dtype = dtype if dtype.is_integer else INT64
    columns = [_column(p, batch, dtype) for p in found]
    vectors = columns[0]
    if len(columns) > 1:
        vectors = joining.concatenate(*columns, dimension=len(batch))
    kept = len(sizes) - len(axes)
    offsets = [i if i < at else i + len(batch) for i in range(kept)]
    return gather(
        x,
        vectors,
        dimension_numbers=GatherDimensionNumbers(offsets, axes, axes),
        slice_sizes=tuple(1 if i in axes else n for i, n in enumerate(sizes)),
    )


def _column(positions: Any, batch: tuple[int, ...], dtype: Any) -> Any:
    if not is_traced(positions) and shape_of(positions) == batch and batch:
        return positions.astype(dtype.name).reshape((*batch, 1))
    return expand_dims(broadcast_to(as_dtype(positions, dtype), batch), -1)


def take(a: Any, indices: Any, axis: int | None = None) -> Any:
    """a at positions along an axis; `axis=None` means of all elements in a row."""
    a, axis = (ravel(a), 0) if axis is None else (a, normalize_axis(axis, len(shape_of(a))))
    return pick(a, (axis,), (indices,), axis)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """For each line along an axis the elements at that line's positions."""
    arr, axis = (ravel(arr), 0) if axis is None else (arr, normalize_axis(axis, len(shape_of(arr))))
    sizes, wanted = shape_of(arr), list(shape_of(indices))
    if len(wanted) != len(sizes):
        fail(UsageError, f"indices of rank {len(wanted)} for an array of rank {len(sizes)}", "rank")
    others = broadcast_shapes(
        *[tuple(1 if i == axis else n for i, n in enumerate(s)) for s in (sizes, wanted)]
    )
    ours, theirs = (
        tuple(s[i] if i == axis else n for i, n in enumerate(others)) for s in (sizes, wanted)
    )
    positions = broadcast_to(wrapped(indices, sizes[axis]), theirs)
    rest = tuple(i for i in range(len(sizes)) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), rest, rest)
    return gather(
        broadcast_to(arr, ours),
        expand_dims(positions, -1),
        dimension_numbers=numbers,
        slice_sizes=(1,) * len(sizes),
    )


def sort(a: Any, axis: int | None = -1) -> Any:
    """a in ascending order along an axis."""
    a, axis = (ravel(a), 0) if axis is None else (a, normalize_axis(axis, len(shape_of(a))))
    return sorting.sort(a, dimension=axis)[0]


def argsort(a: Any, axis: int | None = -1) -> Any:
    """The positions that sort a along an axis, stably (i64)."""
    a, axis = (ravel(a), 0) if axis is None else (a, normalize_axis(axis, len(shape_of(a))))
    places = shape.iota(dtype=INT64, shape=shape_of(a), dimension=axis)
    return sorting.sort(a, places, dimension=axis)[1]


TAKING: dict[str, Callable[..., Any]] = {
    "take": take,
    "take_along_axis": take_along_axis,
    "sort": sort,
    "argsort": argsort,
}
