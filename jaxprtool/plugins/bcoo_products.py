"""Products of sparse arrays by batched coordinates (BCOO) of `jax.experimental.sparse`; see `plugins.bcoo`.

Only stored elements are multiplied. An element that is not stored, times an infinity of the dense
array, gives no NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.dimension_numbers import PlainDotNumbers
from jaxprtool.core.kinds.numbers import Shape
from jaxprtool.core.primitive import optional
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.dtypes import BOOL, DType
from jaxprtool.plugins.bcoo import extract, layout, layout_of_indices, sum_duplicates, wider
from jaxprtool.plugins.expanded import row
from jaxprtool.plugins.sparse import (
    INFO,
    LIBRARY,
    as_type,
    columns,
    filled,
    integer,
    joined,
    linear_row,
    located,
    misfit,
    put,
    remaining,
    shape_of_info,
    spread,
    take,
    transposed,
)

__all__ = ["dot", "dot_types"]

Info = Annotated[Any, INFO]


@jt.primitive(library=LIBRARY)
def bcoo_dot_general(
    lhs_data,
    lhs_indices,
    rhs,
    *,
    dimension_numbers: PlainDotNumbers,
    preferred_element_type: DType | None = optional(None),
    lhs_spinfo: Info | None = optional(None),
    lhs_shape: Shape | None = optional(None),
):
    """`dot_general` of a sparse and a dense array; the result is dense. Only stored elements are
    multiplied.

    dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
    preferred_element_type: the element type of the result; None for the type of the operands.
    lhs_spinfo: the shape of the sparse array, and whether its indices are sorted and unique.
    lhs_shape: the shape, in releases of JAX up to 0.2.26.
    """


@jt.primitive(library=LIBRARY)
def bcoo_dot_general_sampled(A, B, indices, *, dimension_numbers: PlainDotNumbers):
    """Elements of `dot_general` of two dense arrays: data[k] = dot_general(A, B)[indices[k]].

    dimension_numbers: ((contracted axes of A, of B), (batch axes of A, of B)).
    """


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcoo_spdot_general(
    lhs_data,
    lhs_indices,
    rhs_data,
    rhs_indices,
    *,
    lhs_spinfo: Info | None = optional(None),
    rhs_spinfo: Info | None = optional(None),
    lhs_shape: Shape | None = optional(None),
    rhs_shape: Shape | None = optional(None),
    dimension_numbers: PlainDotNumbers,
    preferred_element_type: DType | None = optional(None),
):
    """Data and indices of `dot_general` of two sparse arrays, contracted along sparse axes.

    lhs_spinfo: the shape of the left array, and whether its indices are sorted and unique.
    rhs_spinfo: the same for the right array.
    lhs_shape: the shape of the left array, in releases of JAX up to 0.2.26.
    rhs_shape: the same for the right array.
    dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
    preferred_element_type: the element type of the result; None for the type of the operands.
    """


# -- the type of a product ---------------------------------------------------------------------


def _product_type(lhs: Any, rhs: Any, numbers: Any, dtype: DType | None) -> Any:
    """Return the type of `dot_general` of dense arrays. Raises JaxprTypeError where they do not fit
    together.
    """
    params = {**lax.dot_general.primitive.defaults, "dimension_numbers": numbers}
    params["preferred_element_type"] = dtype
    (found,) = abstract_eval(lax.dot_general.primitive, [lhs, rhs], params)
    return jt.ShapedArray(found.shape, found.dtype)


def _along(name: str, what: str, axes: Sequence[int], kind: str, allowed: range) -> None:
    """Raise JaxprTypeError where `axes` of a sparse array, contracted or batched, are not all in
    `allowed`.
    """
    if any(a not in allowed for a in axes):
        misfit(f"{name}: {what} axes {tuple(axes)} have to be {kind} axes of the sparse array")


def dot_types(
    name: str, data: Any, indices: Any, rhs: Any, numbers: Any, dtype: Any, shape: Sequence[int]
) -> Any:
    """Return the type of the contraction of a sparse and a dense array."""
    n = layout(name, data, indices, shape)
    out = _product_type(jt.ShapedArray(tuple(shape), data.dtype), rhs, numbers, dtype)
    (contracted, _), (batch, _) = numbers
    _along(name, "the batch", batch, "batch", range(n.n_batch))
    _along(name, "the contracted", contracted, "batch or sparse", range(n.n_batch + n.n_sparse))
    return out


# -- sparse and dense --------------------------------------------------------------------------


def dot(data: Any, indices: Any, rhs: Any, numbers: Any, dtype: Any, shape: Sequence[int]) -> Any:
    """Return the contraction of a sparse and a dense array: each stored element times the slice of
    rhs at its indices.
    """
    (lc, rc), (lb, rb) = numbers
    n = len(indices.shape) - 2
    dense = jt.ShapedArray(tuple(shape), data.dtype)
    out = _product_type(dense, jt.ShapedArray(rhs.shape, rhs.dtype), numbers, dtype)
    pairs = list(zip(lc, rc, strict=True))
    by_batch, by_index = [p for p in pairs if p[0] < n], [p for p in pairs if p[0] >= n]
    met = [*lb, *[left for left, _ in by_batch]]
    order = [*met, *remaining(n, met)]
    data, indices = (transposed(spread(x, shape[:n]), order) for x in (data, indices))
    lead, parts = indices.shape[:-1], columns(indices)
    right = [*rb, *[r for _, r in by_batch], *[r for _, r in by_index]]
    rhs = transposed(rhs, [*right, *remaining(len(rhs.shape), right)])
    sparse = [left - n for left, _ in by_index]
    sizes = [shape[n + i] for i in sparse]
    found = take(rhs, located([parts[i] for i in sparse], sizes, lead, len(met)))
    free = remaining(len(parts), sparse)
    kept = [*range(len(lb)), *range(len(met), n)]
    if not free:
        return _summed(data, found, [*range(len(lb), len(met)), n], kept, out)
    product = _outer(data, found, n + 1, out.dtype)
    sizes = [shape[n + i] for i in free]
    places = located([parts[i] for i in free], sizes, lead, n)
    return put(out.shape, _without(places, [*range(len(lb), len(met))]), product)


def _summed(x: Any, y: Any, contracted: Sequence[int], batch: Sequence[int], out: Any) -> Any:
    """Return the contraction of two arrays whose contracted and batch axes have the same
    positions.
    """
    x, y = (as_type(a, out.dtype) for a in (x, y)) if x.dtype is not y.dtype else (x, y)
    axes = (tuple(contracted),) * 2, (tuple(batch),) * 2
    return lax.dot_general(x, y, dimension_numbers=axes, preferred_element_type=out.dtype)


def _outer(x: Any, y: Any, n: int, dtype: DType) -> Any:
    """Return the outer product [*common, *rest of x, *rest of y] of arrays that share their first n
    axes.
    """
    shape = (*x.shape, *y.shape[n:])
    axes = tuple(range(len(x.shape))), (*range(n), *range(len(x.shape), len(shape)))
    x, y = (
        lax.broadcast_in_dim(as_type(a, dtype), shape=shape, broadcast_dimensions=d)
        for a, d in zip((x, y), axes, strict=True)
    )
    return lax.mul(x, y)


def _without(places: Any, axes: Sequence[int]) -> Any:
    """Return positions without the components of some axes, so that `put` sums over these axes."""
    if not axes:
        return places
    parts = columns(places)
    return joined([p for i, p in enumerate(parts) if i not in axes], parts[0].shape, places.dtype)


def _dot_types(data: Any, indices: Any, rhs: Any, **params: Any) -> Any:
    shape = _shape(**params)
    numbers, dtype = params["dimension_numbers"], params.get("preferred_element_type")
    return dot_types("bcoo_dot_general", data, indices, rhs, numbers, dtype, shape)


def _shape(lhs_spinfo: Any = None, lhs_shape: Any = None, **_: Any) -> tuple[int, ...]:
    return shape_of_info("bcoo_dot_general", lhs_spinfo, lhs_shape)


def _dot(in_avals: Any, data: Any, indices: Any, rhs: Any, **params: Any) -> Any:
    numbers, dtype = params["dimension_numbers"], params.get("preferred_element_type")
    return dot(data, indices, rhs, numbers, dtype, _shape(**params))


# -- two dense arrays, at indices --------------------------------------------------------------


def _sampled_types(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    dense = _product_type(A, B, dimension_numbers, None)
    n = layout_of_indices("bcoo_dot_general_sampled", indices, dense.shape)
    rest = dense.shape[n.n_batch + n.n_sparse :]
    return jt.ShapedArray((*dense.shape[: n.n_batch], n.nse, *rest), dense.dtype)


def _met(
    x: Any, own: Sequence[tuple[int, int]], contracted: Sequence[int], parts: Sequence[Any]
) -> tuple[Any, bool]:
    """Gather the slices of a dense array at indices into the product.

    Args:
      x: the array.
      own: for each axis that is not contracted, the axis and its position in the product.
      contracted: the contracted axes.
      parts: the components [count] of the indices, for the first axes of the product.

    Returns:
      The slices [count, *contracted, *rest], and True; where no axis of the array is indexed, the
      array and False.
    """
    there = [(axis, at) for axis, at in own if at < len(parts)]
    rest = [axis for axis, at in own if at >= len(parts)]
    x = transposed(x, [*[axis for axis, _ in there], *contracted, *rest])
    if not there:
        return x, False
    picked = [parts[at] for _, at in there]
    return take(x, joined(picked, picked[0].shape, picked[0].dtype)), True


def _sampled(in_avals: Any, A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """Contract, for each index, the slices of A and B that it selects; the dense product is not
    computed.
    """
    (ac, bc), (ab, bb) = dimension_numbers
    out = _product_type(in_avals[0], in_avals[1], dimension_numbers, None)
    n, n_batch = len(indices.shape) - 2, len(ab)
    count = n + indices.shape[-1]  # the number of axes of the product that are indexed
    if not count:
        return extract(indices, lax.dot_general(A, B, dimension_numbers=dimension_numbers))
    indices = spread(indices, out.shape[:n])
    lead = tuple(indices.shape[:-1])
    places = columns(located(columns(indices), out.shape[n:count], lead, n))
    parts = [lax.reshape(p, new_sizes=(math.prod(lead),)) for p in places]
    free_a, free_b = remaining(len(A.shape), ac, ab), remaining(len(B.shape), bc, bb)
    at = range(n_batch, n_batch + len(free_a) + len(free_b))
    own_a = [*zip(ab, range(n_batch), strict=True), *zip(free_a, at, strict=False)]
    own_b = [*zip(bb, range(n_batch), strict=True), *zip(free_b, at[len(free_a) :], strict=True)]
    (x, x_met), (y, y_met) = _met(A, own_a, ac, parts), _met(B, own_b, bc, parts)
    left, both = max(n_batch - count, 0), (0,) if x_met and y_met else ()
    contracted = tuple([tuple(range(m, m + len(ac))) for m in (x_met, y_met)])
    batch = tuple([(*both, *(m + len(ac) + i for i in range(left))) for m in (x_met, y_met)])
    found = lax.dot_general(x, y, dimension_numbers=(contracted, batch))
    outside = filled(parts[0].shape, BOOL)
    for p, size in zip(parts, out.shape, strict=False):
        outside = lax.or_(outside, lax.or_(lax.lt(p, integer(0, p)), lax.ge(p, integer(size, p))))
    outside = lax.broadcast_in_dim(outside, shape=found.shape, broadcast_dimensions=(0,))
    found = lax.select_n(outside, found, filled(found.shape, found.dtype))
    return lax.reshape(found, new_sizes=(*lead, *out.shape[count:]))


# -- two sparse arrays -------------------------------------------------------------------------


def _spdot_sizes(name: str, avals: Any, shapes: Any, numbers: Any) -> tuple[Any, Any, Any]:
    """Return the layouts of both arrays, and the sizes of the batch axes of the result."""
    (lc, rc), (lb, rb) = numbers
    left, right = (layout(name, avals[i], avals[i + 1], shapes[i // 2]) for i in (0, 2))
    if left.n_dense or right.n_dense:
        misfit(f"{name}: an array has dense axes, and JAX has no product of such")
    for n, contracted, batch in ((left, lc, lb), (right, rc, rb)):
        _along(name, "the batch", batch, "batch", range(n.n_batch))
        sparse = range(n.n_batch, n.n_batch + n.n_sparse)
        _along(name, "the contracted", contracted, "sparse", sparse)
    if right.n_batch > len(rb) and left.n_sparse > len(lc):
        misfit(
            f"{name}: the right array has batch axes, and the left one sparse axes, of their own"
        )
    batch = [shapes[0][i] for i in lb]
    for n, own, (data, indices) in ((left, lb, avals[:2]), (right, rb, avals[2:])):
        rest = remaining(n.n_batch, own)
        batch += wider([data.shape[i] for i in rest], [indices.shape[i] for i in rest])
    return left, right, tuple(batch)


def _spdot_shapes(**params: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the two arrays, from the params of any release of JAX."""
    return [
        shape_of_info("bcoo_spdot_general", params.get(f"{k}_spinfo"), params.get(f"{k}_shape"))
        for k in ("lhs", "rhs")
    ]


def _spdot_types(
    *avals: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = None,
    **spelled: Any,
) -> Any:
    shapes = _spdot_shapes(**spelled)
    dense = [jt.ShapedArray(s, avals[2 * i].dtype) for i, s in enumerate(shapes)]
    out = _product_type(dense[0], dense[1], dimension_numbers, preferred_element_type)
    found = _spdot_sizes("bcoo_spdot_general", avals, shapes, dimension_numbers)
    left, right, batch = found
    (lc, rc), _ = dimension_numbers
    counts = [n.nse if n.n_sparse > len(c) else 1 for n, c in ((left, lc), (right, rc))]
    nse = min(math.prod(counts), math.prod(out.shape[len(batch) :]))
    n_sparse = left.n_sparse + right.n_sparse - 2 * len(lc)
    places = jt.ShapedArray((*batch, nse, n_sparse), avals[1].dtype)
    return [jt.ShapedArray((*batch, nse), out.dtype), places]


def _spdot(in_avals: Any, *operands: Any, dimension_numbers: Any, **params: Any) -> Any:
    """Multiply all pairs of stored elements whose contracted indices are equal; then sum products
    of equal indices.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    shapes = _spdot_shapes(**params)
    found = _spdot_sizes("bcoo_spdot_general", in_avals, shapes, dimension_numbers)
    left, right, batch = found
    data_type, places_type = _spdot_types(*in_avals, dimension_numbers=dimension_numbers, **params)
    lead = (*batch, left.nse, right.nse)
    n_left = left.n_batch - len(lb)
    axes = (
        (*range(left.n_batch), len(batch)),
        (*range(len(lb)), *range(len(lb) + n_left, len(batch)), len(batch) + 1),
    )
    whole = []
    for (data, indices), n, own, d in zip(
        (operands[:2], operands[2:]), (left, right), (lb, rb), axes, strict=True
    ):
        order = [*own, *remaining(n.n_batch, own)]
        parts = [data, *columns(indices)]
        whole.append([_laid(transposed(p, order), d, lead) for p in parts])
    (x, *x_parts), (y, *y_parts) = whole
    lc, rc = ([a - n.n_batch for a in c] for n, c in ((left, lc), (right, rc)))
    apart = filled(lead, BOOL)
    for i, j in zip(lc, rc, strict=True):
        size = shapes[0][left.n_batch + i]
        a, b = x_parts[i], as_type(y_parts[j], x_parts[i].dtype)
        apart = lax.or_(apart, lax.or_(lax.ne(a, b), lax.ge(a, integer(size, a))))
    zero = filled(lead, data_type.dtype)
    x, y = (lax.select_n(apart, as_type(v, data_type.dtype), zero) for v in (x, y))
    kept = [x_parts[i] for i in remaining(left.n_sparse, lc)]
    kept += [as_type(y_parts[i], places_type.dtype) for i in remaining(right.n_sparse, rc)]
    indices = joined(kept, lead, places_type.dtype)
    sizes = [shapes[0][left.n_batch + i] for i in remaining(left.n_sparse, lc)]
    sizes += [shapes[1][right.n_batch + i] for i in remaining(right.n_sparse, rc)]
    count = left.nse * right.nse
    data = lax.reshape(lax.mul(x, y), new_sizes=(*batch, count))
    indices = lax.reshape(indices, new_sizes=(*batch, count, len(sizes)))
    return sum_duplicates(data, indices, sizes, data_type.shape[-1])


def _laid(x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Return x broadcast to `shape`; the axes of x become `axes`."""
    return lax.broadcast_in_dim(x, shape=tuple(shape), broadcast_dimensions=tuple(axes))


linear_row(bcoo_dot_general, _dot_types, _dot, (0, 2))
linear_row(bcoo_dot_general_sampled, _sampled_types, _sampled, (0, 1))
row(bcoo_spdot_general, _spdot_types, _spdot)
