"""Rows of `SearchSorted`, a binary search of all queries at once, and `Nonzero`, a stable sort."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import check_axes, check_same_dtype
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.indexing import Windows
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

__all__: list[str] = []

_METHODS = ("scan", "scan_unrolled", "compare_all", "sort")


def _type(
    a: Aval,
    query: Aval,
    *,
    side: str,
    dimension: int,
    batch_dims: int,
    method: str,
    out_dtype: DType,
) -> Aval:
    name = "SearchSorted"
    check_same_dtype(name, (a, query))
    if a.dtype.kind not in "biuf":
        ill_typed(f"{name} is for types with an order, and its operands are {a}", "operand-types")
    check_axes(name, "dimension", (dimension,), a.ndim, a)
    if not 0 <= batch_dims <= dimension or a.shape[:batch_dims] != query.shape[:batch_dims]:
        ill_typed(f"{name}: batch_dims={batch_dims} does not fit {a} and {query}", "operand-shapes")
    for key, value, words in (("side", side, ("left", "right")), ("method", method, _METHODS)):
        if value not in words:
            ill_typed(f"{name}: {key} is {value}, and has to be one of {words}", "param-value")
    if out_dtype.kind not in "iu":
        ill_typed(f"{name} gives integers, and out_dtype is {out_dtype}", "param-value")
    others = [n for i, n in enumerate(a.shape) if i != dimension][batch_dims:]
    return ShapedArray((*a.shape[:batch_dims], *others, *query.shape[batch_dims:]), out_dtype)


def _search(
    in_avals: Sequence[Aval],
    a: Value,
    query: Value,
    *,
    side: str,
    dimension: int,
    batch_dims: int,
    method: str,
    out_dtype: DType,
) -> Value:
    """Search all queries at once: halve the range in which each belongs until it is empty."""
    shape, asked = get_aval(a).shape, get_aval(query).shape
    others = [i for i in range(len(shape)) if i != dimension]
    n, kept = shape[dimension], [shape[i] for i in others]
    batch, rest = (math.prod(s) for s in split_list(kept, batch_dims))
    places = (batch * rest, math.prod(asked[batch_dims:]))
    rows = lax.reshape(
        lax.transpose(a, permutation=(*others, dimension)), new_sizes=(batch * rest, n)
    )
    queries = lax.reshape(query, new_sizes=(batch, places[1]))
    queries = lax.broadcast_in_dim(
        queries, shape=(batch, rest, places[1]), broadcast_dimensions=(0, 2)
    )
    queries = lax.reshape(queries, new_sizes=places)
    low = lax.broadcast_in_dim(_i32(0), shape=places)
    high = lax.broadcast_in_dim(_i32(n), shape=places)
    for _ in range(operator.index(n).bit_length() if math.prod(places) else 0):
        middle = lax.div(lax.add(low, high), _i32(2))
        after = _stands_before(_taken(rows, middle, n), queries, equal=side == "right")
        is_open = lax.lt(low, high)
        low = lax.select_n(lax.and_(is_open, after), low, lax.add(middle, _i32(1)))
        high = lax.select_n(lax.and_(is_open, lax.not_(after)), high, middle)
    out = lax.convert_element_type(low, new_dtype=out_dtype)
    return lax.reshape(out, new_sizes=(*kept, *asked[batch_dims:]))


def _i32(n: int) -> Value:
    return scalar_lit(n, INT32)


def _taken(rows: Value, places: Value, n: int) -> Value:
    """Return the elements of each row at positions; a position after the end reads the last
    element.
    """
    shape = get_aval(places).shape
    within = lax.min(places, lax.broadcast_in_dim(_i32(n - 1), shape=shape))
    indices = lax.reshape(within, new_sizes=(*shape, 1))
    numbers = Windows((), (1,), (1,), (0,), (0,)).gather_numbers()
    return lax.gather(rows, indices, dimension_numbers=numbers, slice_sizes=(1, 1))


def _stands_before(x: Value, query: Value, *, equal: bool) -> Value:
    """Whether x comes before a query (with `equal`, also where they are equal).

    NaN comes last, and equals itself.
    """
    before = lax.le(x, query) if equal else lax.lt(x, query)
    if get_aval(x).dtype.kind != "f":
        return before
    nan = lax.ne(query, query)
    return lax.or_(before, nan if equal else lax.and_(nan, lax.eq(x, x)))


def _batch(
    size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: Any
) -> OutAndDim:
    """The batch rule.

    A batch axis of both operands becomes a batch axis of the search; one of a single operand
    becomes a free axis.
    """
    (a, query), (da, dq) = vals, dims
    n = params["batch_dims"]
    if da is not None and dq is not None:
        a, query = moveaxis(a, da, 0), moveaxis(query, dq, 0)
        more = {"batch_dims": n + 1, "dimension": params["dimension"] + 1}
        return lax.search_sorted(a, query, **{**params, **more}), 0
    if da is not None:
        a = moveaxis(a, da, n)
        return lax.search_sorted(a, query, **{**params, "dimension": params["dimension"] + 1}), n
    assert dq is not None
    out = get_aval(a).ndim - 1
    return lax.search_sorted(a, moveaxis(query, dq, n), **params), out


define(
    lax.search_sorted,
    abstract_eval=_type,
    **LOCALLY_CONSTANT,
    batch=_batch,
    **decomposed(_search),
    cost=AS_LOWERED,
    masks="both",
    steers="all",
)


# -- Nonzero -----------------------------------------------------------------------------------


def _nonzero_types(
    a: Aval, *fill_value: Aval, size: int, axes: tuple[int, ...], out_dtype: DType
) -> list[Aval]:
    name = "Nonzero"
    check_axes(name, "axes", axes, a.ndim, a)
    if size < 0:
        ill_typed(f"{name}: size is {size}, and has to be a number of elements", "param-value")
    if out_dtype.kind not in "iu":
        ill_typed(f"{name} gives integers, and out_dtype is {out_dtype}", "param-value")
    if fill_value and len(fill_value) != len(axes):
        ill_typed(f"{name}: {len(fill_value)} values for {len(axes)} axes", "operand-count")
    batch = tuple(n for i, n in enumerate(a.shape) if i not in axes)
    for f in fill_value:
        own = f.shape[-len(batch) :] if batch else ()
        fits = len(f.shape) <= len(batch) and all(
            n in (1, m) for n, m in zip(reversed(own), reversed(batch), strict=False)
        )
        if f.dtype is not out_dtype or not fits:
            ill_typed(f"{name}: the value {f} does not stretch to {out_dtype}{list(batch)}")
    return [ShapedArray((*batch, size), out_dtype) for _ in axes]


def _nonzero(
    in_avals: Sequence[Aval],
    a: Value,
    *fill_value: Value,
    size: int,
    axes: tuple[int, ...],
    out_dtype: DType,
) -> list[Value]:
    """Return the positions: sort them stably, nonzero elements first, and keep the first `size` of
    them.
    """
    shape, axes = in_avals[0].shape, tuple(sorted(axes))
    others = tuple(i for i in range(len(shape)) if i not in axes)
    batch, sizes = tuple(shape[i] for i in others), [shape[i] for i in axes]
    n, last = math.prod(sizes), len(batch)
    fills = [
        _stretched(f, (*batch, size)) for f in fill_value or [scalar_lit(0, out_dtype)] * len(axes)
    ]
    if not n or not size:
        return fills
    rows = lax.reshape(lax.transpose(a, permutation=(*others, *axes)), new_sizes=(*batch, n))
    zero = scalar_lit(False if in_avals[0].dtype.kind == "b" else 0, in_avals[0].dtype)
    is_zero = lax.eq(rows, lax.broadcast_in_dim(zero, shape=(*batch, n)))
    places = lax.iota(dtype=INT32, shape=(*batch, n), dimension=last)
    found, order = lax.sort(is_zero, places, dimension=last, num_keys=1, is_stable=True)
    kept = [(0, 0, 0)] * last + [(0, size - n, 0)]
    missing = lax.pad(found, scalar_lit(True, found.dtype), padding_config=tuple(kept))
    order = lax.pad(order, _i32(0), padding_config=tuple(kept))
    outs, step = [], n
    for width, fill in zip(sizes, fills, strict=True):
        step = step // width
        along = lax.rem(lax.div(order, _i32(step)), _i32(width))
        along = lax.convert_element_type(along, new_dtype=out_dtype)
        outs.append(lax.select_n(missing, along, fill))
    return outs


def _stretched(fill: Value, shape: tuple[int, ...]) -> Value:
    """Broadcast one value for each example of a batch to a shape whose last axis is not a batch
    axis.
    """
    own = get_aval(fill).shape
    first = len(shape) - 1 - len(own)
    return lax.broadcast_in_dim(
        fill, shape=shape, broadcast_dimensions=tuple(range(first, first + len(own)))
    )


def _nonzero_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: Any
) -> OutAndDim:
    a, *fills = [
        x if i and d is None else materialize(x, d, axis_size)
        for i, (x, d) in enumerate(zip(vals, dims, strict=True))
    ]
    n_batch = get_aval(a).ndim - len(params["axes"])
    for i, (x, d) in enumerate(zip(fills, dims[1:], strict=True)):
        if d is not None:
            own = get_aval(x).shape
            ones = (1,) * (n_batch - len(own))
            fills[i] = lax.reshape(x, new_sizes=(own[0], *ones, *own[1:]))
    outs = lax.nonzero(a, *fills, **{**params, "axes": tuple(i + 1 for i in params["axes"])})
    return outs, [0] * len(outs)


define(
    lax.nonzero,
    abstract_eval=_nonzero_types,
    **LOCALLY_CONSTANT,
    batch=_nonzero_batch,
    **decomposed(_nonzero),
    cost=AS_LOWERED,
    masks="both",
    steers="all",
)
