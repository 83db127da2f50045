"""`x[index]` by NumPy's rules: numbers, slices, None, `...`, scalars that are traced, and arrays of integers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from jaxprtool.core.trace import scalar_lit
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT64
from jaxprtool.ops import shape, slicing
from jaxprtool.ops.arrays.promotion import as_dtype, dtype_of_value, promote_dtypes, shape_of
from jaxprtool.ops.arrays.shaping import expand_dims
from jaxprtool.ops.arrays.taking import is_index_array, is_traced, pick, wrapped

__all__ = ["getitem"]


class _Dim(NamedTuple):
    """What is taken of one dimension.

    Attributes:
      start, limit, stride: the elements that are left by the static slice.
      reverse: whether they come in reverse order.
      drop: whether the dimension, then of size 1, goes away.
      index: the traced position, or None.
    """

    start: int
    limit: int
    stride: int = 1
    reverse: bool = False
    drop: bool = False
    index: Any = None


def getitem(x: Any, index: Any) -> Any:
    """The part of x that `index` selects.

    Raises:
      IndexError: an index is out of range, or there are too many.
      UnsupportedError: an index is boolean, or a list.
    """
    given = index if isinstance(index, tuple) else (index,)
    items = _expand(given, shape_of(x))
    if any(map(is_index_array, items)):
        return _with_arrays(x, items, next((k for k, i in enumerate(given) if i is ...), 0))
    dims = [
        _dimension(item, size)
        for item, size in zip((i for i in items if i is not None), shape_of(x), strict=True)
    ]
    x = _static(x, dims)
    x = _dynamic(x, dims)
    flipped = tuple(i for i, d in enumerate(dims) if d.reverse)
    x = shape.rev(x, dimensions=flipped) if flipped else x
    dropped = tuple(i for i, d in enumerate(dims) if d.drop)
    x = shape.squeeze(x, dimensions=dropped) if dropped else x
    return _new_axes(x, items, dims)


def _with_arrays(x: Any, items: list[Any], dots: int) -> Any:
    """Arrays, and the numbers beside them, go together; where they stand apart their axes come first.

    dots: the position of `...`, which parts them also where it stands for nothing; 0 without it.
    """
    apart = [i for i, item in enumerate(items) if item is not None and not isinstance(item, slice)]
    for i in apart:
        if isinstance(items[i], (bool, list, tuple)) or not dtype_of_value(items[i]).is_integer:
            _refuse(items[i])
    x = getitem(x, tuple(slice(None) if i in apart else item for i, item in enumerate(items)))
    side_by_side = apart == list(range(apart[0], apart[-1] + 1))
    side_by_side = side_by_side and not apart[0] < dots <= apart[-1]
    return pick(x, apart, [items[i] for i in apart], apart[0] if side_by_side else 0)


def _expand(items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """The index with `...` and what is missing at its end written out."""
    given = sum(i is not None and i is not ... for i in items)
    dots = [k for k, i in enumerate(items) if i is ...]
    if given > len(sizes):
        raise IndexError(f"{given} indices for an array of {len(sizes)} dimensions")
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(items)
    rest = [slice(None)] * (len(sizes) - given)
    return [*items[:at], *rest, *items[at + len(dots) :]]


def _dimension(item: Any, size: int) -> _Dim:
    if isinstance(item, slice):
        return _sliced(item, size)
    if isinstance(item, (bool, list, tuple)) or getattr(item, "shape", ()) != ():
        _refuse(item)
    dtype = None if type(item) is int else dtype_of_value(item)
    if dtype is not None and not dtype.is_integer:
        _refuse(item)
    if is_traced(item):
        return _Dim(0, size, drop=True, index=wrapped(item, size))
    position = item.__index__()
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of bounds for a dimension of size {size}")
    return _Dim(position % size, position % size + 1, drop=True)


def _refuse(item: Any) -> NoReturn:
    aval = getattr(item, "aval", None) or type(item).__name__
    fail(
        UnsupportedError,
        f"an index of type {aval}: only integers, arrays of them, slices, None and ... are possible",
        "index",
        help="use where for a choice by a mask, and an array instead of a list",
    )


def _sliced(item: slice, size: int) -> _Dim:
    start, stop, step = item.indices(size)
    count = len(range(start, stop, step))
    if count == 0:
        return _Dim(0, 0)
    last = start + (count - 1) * step
    if step < 0:
        return _Dim(last, start + 1, -step, reverse=count > 1)
    return _Dim(start, last + 1, step)


def _static(x: Any, dims: Sequence[_Dim]) -> Any:
    whole = all(
        (d.start, d.limit, d.stride) == (0, size, 1)
        for d, size in zip(dims, shape_of(x), strict=True)
    )
    if whole:
        return x
    strides = tuple(d.stride for d in dims)
    return slicing.slice(
        x,
        start_indices=tuple(d.start for d in dims),
        limit_indices=tuple(d.limit for d in dims),
        strides=None if set(strides) == {1} else strides,
    )


def _dynamic(x: Any, dims: Sequence[_Dim]) -> Any:
    indices = [d.index for d in dims if d.index is not None]
    if not indices:
        return x
    dtype = functools.reduce(promote_dtypes, map(dtype_of_value, indices))
    dtype = dtype if dtype.is_integer else INT64
    zero = scalar_lit(0, dtype)
    starts = [zero if d.index is None else as_dtype(d.index, dtype) for d in dims]
    sizes = tuple(n if d.index is None else 1 for d, n in zip(dims, shape_of(x), strict=True))
    return slicing.dynamic_slice(x, *starts, slice_sizes=sizes)


def _new_axes(x: Any, items: Sequence[Any], dims: Sequence[_Dim]) -> Any:
    if not any(i is None for i in items):
        return x
    rest, position, new = iter(dims), 0, []
    for item in items:
        if item is None:
            new.append(position)
            position += 1
        elif not next(rest).drop:
            position += 1
    return expand_dims(x, tuple(new))
