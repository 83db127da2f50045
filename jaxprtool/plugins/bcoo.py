"""Sparse arrays of `jax.experimental.sparse` by batched coordinates (BCOO).

An array of shape (*batch, *sparse, *dense) is stored as data [*batch, nse, *dense] and indices
[*batch, nse, n_sparse]. A batch axis of data or indices may have size 1; it is then broadcast.
`plugins.sparse` has what these plug-ins share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.numbers import ElementTypeOrClass, Shape
from jaxprtool.core.primitive import optional
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import BOOL, INT32, INT64, DType
from jaxprtool.plugins.expanded import row
from jaxprtool.plugins.sparse import (
    INFO,
    LIBRARY,
    as_type,
    columns,
    filled,
    index_dtype_of,
    integer,
    joined,
    linear_row,
    located,
    misfit,
    numbered,
    put,
    shape_of_info,
    spread,
    take,
    transposed,
    whole_numbers,
)

__all__ = [
    "extract",
    "fromdense",
    "layout",
    "layout_of_indices",
    "sum_duplicates",
    "todense",
    "wider",
]

Info = Annotated[Any, INFO]


@jt.primitive(library=LIBRARY)
def bcoo_todense(
    data, indices, *, spinfo: Info | None = optional(None), shape: Shape | None = optional(None)
):
    """The dense array: out[indices[k]] = sum of data[k] over all k with these indices, 0 elsewhere.

    spinfo: the shape of the array, and whether its indices are sorted and unique.
    shape: the shape, in releases of JAX up to 0.2.26.
    """


@jt.primitive(library=LIBRARY)
def bcoo_todense_p(data, indices, *, shape: Shape):
    """`bcoo_todense`, under its name in releases of JAX up to 0.2.25.

    shape: the shape of the array.
    """


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcoo_fromdense(mat, *, nse: int, n_batch: int, n_dense: int, index_dtype: ElementTypeOrClass):
    """Data and indices of the first nse nonzero elements of mat, in row-major order, padded to nse.

    nse: the number of stored elements.
    n_batch: the number of batch axes; they are the first axes.
    n_dense: the number of dense axes; they are the last axes.
    index_dtype: the element type of the indices.
    """


@jt.primitive(library=LIBRARY)
def bcoo_extract(indices, arr, *, assume_unique: bool = optional(True)):
    """The elements of a dense array at indices: data[k] = arr[indices[k]].

    assume_unique: if False, only the first of equal indices gets the element, the others get 0.
    """


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcoo_transpose(
    data,
    indices,
    *,
    permutation: tuple[int, ...],
    spinfo: Info | None = optional(None),
    shape: Shape | None = optional(None),
):
    """Data and indices of the transposed array: axis i of the result is axis permutation[i] of the
    operand.

    permutation: the order of axes; batch, sparse and dense axes stay among themselves.
    spinfo: the shape of the array, and whether its indices are sorted and unique.
    shape: the shape, in releases of JAX up to 0.2.26.
    """


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcoo_sort_indices(data, indices, *, spinfo: Info):
    """Data and indices, sorted lexicographically by the indices.

    spinfo: the shape of the array, and whether its indices are sorted and unique.
    """


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcoo_sum_duplicates(data, indices, *, spinfo: Info, nse: int | None):
    """Data and indices sorted by the indices; equal ones are summed; padded to nse.

    spinfo: the shape of the array, and whether its indices are sorted and unique.
    nse: the number of stored elements of the result.
    """


# -- layouts -----------------------------------------------------------------------------------


class Layout(NamedTuple):
    """The numbers of batch, sparse and dense axes, and of stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def _are_spread(sizes: Sequence[int], to: Sequence[int]) -> bool:
    return len(sizes) == len(to) and all(a in (1, b) for a, b in zip(sizes, to, strict=True))


def layout_of_indices(name: str, indices: Any, shape: Sequence[int]) -> Layout:
    """Return the layout that indices give an array of a shape. Raises JaxprTypeError where they do
    not fit the shape.
    """
    whole_numbers(name, "indices", indices)
    if len(indices.shape) < 2:
        misfit(f"{name}: indices have the axes (*batch, nse, n_sparse), and are {indices}")
    *batch, nse, n_sparse = indices.shape
    n_dense = len(shape) - len(batch) - n_sparse
    if n_dense < 0 or not _are_spread(batch, shape[: len(batch)]):
        misfit(f"{name}: indices {indices} are not those of an array of shape {tuple(shape)}")
    return Layout(len(batch), n_sparse, n_dense, nse)


def layout(name: str, data: Any, indices: Any, shape: Sequence[int]) -> Layout:
    """Return the layout of a sparse array. Raises JaxprTypeError where data, indices and shape do
    not fit together.
    """
    found = layout_of_indices(name, indices, shape)
    n, rest = found.n_batch, shape[found.n_batch + found.n_sparse :]
    fits = _are_spread(data.shape[:n], shape[:n]) and tuple(data.shape[n:]) == (found.nse, *rest)
    if not fits:
        misfit(f"{name}: data {data} with indices {indices} are no array of shape {tuple(shape)}")
    return found


def wider(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of two lists of axes after broadcasting: an axis of size 1 takes the other's
    size.
    """
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def _places(indices: Any, shape: Sequence[int]) -> Any:
    """Return the positions [*batch, nse, n_batch + n_sparse] of the elements; batch axes of
    `indices` are not broadcast.
    """
    n = len(indices.shape) - 2
    sizes = shape[n : n + indices.shape[-1]]
    return located(columns(indices), sizes, indices.shape[:-1], n)


# -- todense, extract, fromdense ---------------------------------------------------------------


def todense(data: Any, indices: Any, shape: Sequence[int]) -> Any:
    """Return the dense array of a shape: the sum of the data at each position."""
    batch = shape[: len(indices.shape) - 2]
    return put(shape, _places(spread(indices, batch), shape), spread(data, batch))


def _todense_types(data: Any, indices: Any, *, spinfo: Any = None, shape: Any = None) -> Any:
    found = shape_of_info("bcoo_todense", spinfo, shape)
    layout("bcoo_todense", data, indices, found)
    return jt.ShapedArray(found, data.dtype)


def _todense(in_avals: Any, data: Any, indices: Any, *, spinfo: Any = None, shape: Any = None):
    return todense(data, indices, shape_of_info("bcoo_todense", spinfo, shape))


def extract(indices: Any, arr: Any) -> Any:
    """Return the elements of a dense array at indices; equal indices get the same element."""
    batch = arr.shape[: len(indices.shape) - 2]
    return take(arr, _places(spread(indices, batch), arr.shape))


def _extract_types(indices: Any, arr: Any, *, assume_unique: bool = True) -> Any:
    n = layout_of_indices("bcoo_extract", indices, arr.shape)
    rest = arr.shape[n.n_batch + n.n_sparse :]
    return jt.ShapedArray((*arr.shape[: n.n_batch], n.nse, *rest), arr.dtype)


def _extract(in_avals: Any, indices: Any, arr: Any, *, assume_unique: bool = True) -> Any:
    data = extract(indices, arr)
    if assume_unique or not indices.shape[-2]:
        return data
    n = len(indices.shape) - 2
    _, first, order = _sorted(indices)
    zeros = filled(first.shape, BOOL)
    back = located([order], first.shape[-1:], first.shape, n)
    kept = put((), back, first, into=zeros, scatter=lax.scatter)
    return lax.mul(data, _beside(as_type(spread(kept, arr.shape[:n]), data.dtype), data))


def _beside(x: Any, like: Any) -> Any:
    """Return x [*lead] broadcast to the shape of `like` [*lead, *rest]."""
    axes = tuple(range(len(x.shape)))
    return lax.broadcast_in_dim(x, shape=tuple(like.shape), broadcast_dimensions=axes)


def _fromdense_types(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    n_sparse = len(mat.shape) - n_batch - n_dense
    if min(nse, n_batch, n_dense, n_sparse) < 0:
        counts = f"nse={nse}, n_batch={n_batch} and n_dense={n_dense}"
        misfit(f"bcoo_fromdense: {counts} do not fit {mat}")
    batch, dtype = mat.shape[:n_batch], index_dtype_of("bcoo_fromdense", index_dtype)
    data = jt.ShapedArray((*batch, nse, *mat.shape[n_batch + n_sparse :]), mat.dtype)
    return [data, jt.ShapedArray((*batch, nse, n_sparse), dtype)]


def fromdense(mat: Any, nse: int, n_batch: int, n_dense: int, dtype: DType) -> list[Any]:
    """Return data and indices of the nonzero elements, padded to nse with positions outside the
    array.
    """
    ndim = len(mat.shape)
    sizes = mat.shape[n_batch : ndim - n_dense]
    batch, count = tuple(mat.shape[:n_batch]), math.prod(sizes)
    stored = lax.ne(mat, filled(mat.shape, mat.dtype))
    stored = lax.reduce_or(stored, axes=tuple(range(ndim - n_dense, ndim))) if n_dense else stored
    stored = lax.reshape(stored, new_sizes=(*batch, count))
    wide = INT32 if count < 1 << 31 else INT64
    place = lax.iota(dtype=wide, shape=(*batch, count), dimension=n_batch)
    outside = integer(count, place)
    (place,) = lax.sort(lax.select_n(stored, outside, place), dimension=n_batch, num_keys=1)
    place = _cut(place, nse, count)
    parts = _unravelled(place, sizes, count)
    indices = joined([as_type(p, dtype) for p in parts], place.shape, dtype)
    data = extract(indices, mat)
    if sizes:
        return [data, indices]
    kept = lax.lt(place, integer(count, place))  # without sparse axes there is at most one element
    return [lax.select_n(_beside(kept, data), filled(data.shape, data.dtype), data), indices]


def _cut(x: Any, n: int, fill: int) -> Any:
    """Return x with n elements along its last axis: cut off, or padded with `fill`."""
    *lead, have = x.shape
    if have >= n:
        return lax.slice(x, start_indices=(0,) * len(x.shape), limit_indices=(*lead, n))
    more = lax.full((*lead, n - have), fill, x.dtype)
    return lax.concatenate(x, more, dimension=len(lead))


def _unravelled(place: Any, sizes: Sequence[int], count: int) -> list[Any]:
    """Return the coordinates of flat row-major positions; those of position `count` (padding) are
    `sizes`.
    """
    if not count:
        return [integer(n, place) for n in sizes]
    outside = lax.eq(place, integer(count, place))
    parts, rest = [], place
    for n in reversed(sizes):
        part = lax.rem(rest, integer(n, rest))
        parts.append(lax.select_n(outside, part, integer(n, part)))
        rest = lax.div(rest, integer(n, rest))
    return parts[::-1]


def _fromdense(in_avals: Any, mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any):
    dtype = index_dtype_of("bcoo_fromdense", index_dtype)
    return fromdense(mat, nse, n_batch, n_dense, dtype)


# -- transpose, sort, sums ---------------------------------------------------------------------


def _orders(name: str, n: Layout, permutation: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the permutations of the batch axes and of the sparse axes, each counted from 0."""
    ends = [0, n.n_batch, n.n_batch + n.n_sparse, n.n_batch + n.n_sparse + n.n_dense]
    groups = [list(permutation[a:b]) for a, b in itertools.pairwise(ends)]
    expected = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
    if len(permutation) != ends[-1] or [*map(sorted, groups)] != expected:
        counts = f"{n.n_batch} batch, {n.n_sparse} sparse and {n.n_dense} dense axes"
        jt.ill_typed(
            f"{name}: permutation={tuple(permutation)} does not keep {counts} apart", "permutation"
        )
    return groups[0], [i - n.n_batch for i in groups[1]]


def _transpose_types(
    data: Any, indices: Any, *, permutation: Any, spinfo: Any = None, shape: Any = None
) -> Any:
    found = shape_of_info("bcoo_transpose", spinfo, shape)
    n = layout("bcoo_transpose", data, indices, found)
    batch, _ = _orders("bcoo_transpose", n, permutation)
    dense = [i - n.n_sparse + 1 for i in permutation[n.n_batch + n.n_sparse :]]
    sizes = [data.shape[i] for i in (*batch, n.n_batch, *dense)]
    rest = indices.shape[n.n_batch :]
    moved = (*[indices.shape[i] for i in batch], *rest)
    return [jt.ShapedArray(tuple(sizes), data.dtype), jt.ShapedArray(moved, indices.dtype)]


def _transpose(
    in_avals: Any,
    data: Any,
    indices: Any,
    *,
    permutation: Any,
    spinfo: Any = None,
    shape: Any = None,
) -> Any:
    found = shape_of_info("bcoo_transpose", spinfo, shape)
    n = layout("bcoo_transpose", data, indices, found)
    batch, sparse = _orders("bcoo_transpose", n, permutation)
    dense = [i - n.n_sparse + 1 for i in permutation[n.n_batch + n.n_sparse :]]
    parts = columns(transposed(indices, batch))
    sizes = (*[indices.shape[i] for i in batch], n.nse)
    moved = joined([parts[i] for i in sparse], sizes, indices.dtype)
    return [transposed(data, (*batch, n.n_batch, *dense)), moved]


def _sorted(indices: Any) -> tuple[list[Any], Any, Any]:
    """Sort indices lexicographically. All results are [*batch, nse].

    Returns:
      The sorted components; whether each element is the first with its index; the old position of
      each element.
    """
    shape = tuple(indices.shape[:-1])
    axis = len(shape) - 1
    order, parts = numbered(shape, axis), columns(indices)
    first = lax.eq(order, integer(0, order))
    if not parts:
        return [], first, order
    *parts, order = lax.sort(*parts, order, dimension=axis, num_keys=len(parts))
    if shape[-1] < 2:
        return parts, first, order
    for p in parts:
        differs = lax.ne(_between(p, 1, shape[-1]), _between(p, 0, shape[-1] - 1))
        begins = lax.concatenate(filled((*shape[:-1], 1), BOOL), differs, dimension=axis)
        first = lax.or_(first, begins)
    return parts, first, order


def _between(x: Any, start: int, limit: int) -> Any:
    """Return x[..., start:limit]."""
    lead = x.shape[:-1]
    return lax.slice(x, start_indices=(*(0,) * len(lead), start), limit_indices=(*lead, limit))


def _ordered(data: Any, order: Any, n: int) -> Any:
    """Return data [*batch, nse, *dense] permuted along nse by `order` [*batch, nse]; batch axes of
    size 1 are broadcast.
    """
    batch = wider(order.shape[:n], data.shape[:n])
    order = spread(order, batch)
    places = located([order], order.shape[-1:], order.shape, n)
    return take(spread(data, batch), places)


def _sort_types(data: Any, indices: Any, *, spinfo: Any) -> Any:
    n = layout("bcoo_sort_indices", data, indices, spinfo.fields["shape"])
    if not n.n_sparse:
        return [jt.ShapedArray(a.shape, a.dtype) for a in (data, indices)]
    batch = wider(indices.shape[: n.n_batch], data.shape[: n.n_batch])
    shape = (*batch, *data.shape[n.n_batch :])
    return [jt.ShapedArray(shape, data.dtype), jt.ShapedArray(indices.shape, indices.dtype)]


def _sort(in_avals: Any, data: Any, indices: Any, *, spinfo: Any) -> Any:
    if not indices.shape[-1]:
        return [data, indices]
    parts, _, order = _sorted(indices)
    found = _ordered(data, order, len(indices.shape) - 2)
    return [found, joined(parts, order.shape, indices.dtype)]


def _sum_types(data: Any, indices: Any, *, spinfo: Any, nse: Any) -> Any:
    n = layout("bcoo_sum_duplicates", data, indices, spinfo.fields["shape"])
    if nse is None or nse < 0:
        jt.ill_typed(f"bcoo_sum_duplicates: nse={nse} says no number of elements", "param-value")
    batch = indices.shape[: n.n_batch]
    shape = (*wider(batch, data.shape[: n.n_batch]), nse, *data.shape[n.n_batch + 1 :])
    places = jt.ShapedArray((*batch, nse, n.n_sparse), indices.dtype)
    return [jt.ShapedArray(shape, data.dtype), places]


def sum_duplicates(data: Any, indices: Any, sizes: Sequence[int], nse: int) -> list[Any]:
    """Return data and indices with equal indices summed; all indices outside `sizes` become one, at
    the end.
    """
    n = len(indices.shape) - 2
    lead = tuple(indices.shape[:-1])
    parts = columns(indices)
    outside = filled(lead, BOOL)
    for p, size in zip(parts, sizes, strict=True):
        outside = lax.or_(outside, lax.ge(p, integer(size, p)))
    parts = [
        lax.select_n(outside, p, integer(size, p)) for p, size in zip(parts, sizes, strict=True)
    ]
    parts, first, order = _sorted(joined(parts, lead, indices.dtype))
    group = lax.cumsum(as_type(first, INT32), axis=n)
    group = lax.sub(group, integer(1, group))
    found = [
        put(
            (),
            located([group], (nse,), lead, n),
            p,
            into=lax.full((*lead[:-1], nse), size, p.dtype),
            scatter=lax.scatter_min,
        )
        for p, size in zip(parts, sizes, strict=True)
    ]
    ordered = _ordered(data, order, n)
    group = spread(group, ordered.shape[:n])
    shape = (*ordered.shape[:n], nse, *ordered.shape[n + 1 :])
    total = put(shape, located([group], (nse,), group.shape, n), ordered)
    return [total, joined(found, (*lead[:-1], nse), indices.dtype)]


def _sum(in_avals: Any, data: Any, indices: Any, *, spinfo: Any, nse: int) -> Any:
    n = len(indices.shape) - 2
    sizes = spinfo.fields["shape"][n : n + indices.shape[-1]]
    return sum_duplicates(data, indices, sizes, nse)


linear_row(bcoo_todense, _todense_types, _todense, (0,))
linear_row(
    bcoo_todense_p,
    lambda data, indices, *, shape: _todense_types(data, indices, shape=shape),
    _todense,
    (0,),
)
linear_row(bcoo_extract, _extract_types, _extract, (1,))
row(bcoo_fromdense, _fromdense_types, _fromdense, transpose=NONLINEAR)
row(bcoo_transpose, _transpose_types, _transpose)
row(bcoo_sort_indices, _sort_types, _sort)
row(bcoo_sum_duplicates, _sum_types, _sum)
