"""Primitives of `jax.experimental.sparse` (arrays in the BCOO layout), as a plugin.

    jaxprtool run pagerank.jaxpr --plugin examples/sparse_primitives.py

A sparse array of shape (batch..., sparse..., dense...) is its data, [batch..., nse, dense...], and the places of these, i32[
batch..., nse, n_sparse]; places out of bounds are padding. Each primitive is said in terms of JAX's own, and gets all its
rules from that.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.ir.params import Word


@jt.primitive
def bcoo_todense(data, indices, *, spinfo: Any):
    """The dense array; entries at one place are added.

    spinfo: `SparseInfo(shape=...)`, the shape of the array.
    """


@jt.primitive
def bcoo_extract(indices, mat, *, assume_unique: bool):
    """The elements of a dense array at the places; 0 at a place that was there before.

    assume_unique: a promise that no place is there twice.
    """


@jt.primitive(multiple_results=True)
def bcoo_transpose(data, indices, *, permutation: tuple[int, ...], spinfo: Any):
    """Data and places of the transpose.

    permutation: which axis of the operand each one of the result is; batch axes stay such, as do the others.
    spinfo: the shape of the operand.
    """


@jt.primitive
def bcoo_dot_general(
    lhs_data,
    lhs_indices,
    rhs,
    *,
    dimension_numbers: Any,
    lhs_spinfo: Any,
    preferred_element_type: jt.DType | None,
):
    """The contraction of a sparse array with a dense one; params as for dot_general.

    lhs_spinfo: the shape of the sparse one.
    """


# -- what they are in JAX's own ------------------------------------------------------------------


def _scatter(data: Any, indices: Any, shape: Any) -> Any:
    """Zeros of a shape with data[i] added at indices[i], the places of its first axes."""
    n = indices.shape[-1]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=range(1, len(data.shape)),
        inserted_window_dims=range(n),
        scatter_dims_to_operand_dims=range(n),
    )
    return lax.scatter_add(lax.zeros(shape, data.dtype), indices, data, dimension_numbers=numbers)


def _gather(mat: Any, indices: Any) -> Any:
    """mat[indices[i]] for each i; 0 where that is out of bounds."""
    n = indices.shape[-1]
    numbers = lax.GatherDimensionNumbers(
        offset_dims=range(1, 1 + len(mat.shape) - n),
        collapsed_slice_dims=range(n),
        start_index_map=range(n),
    )
    return lax.gather(
        mat,
        indices,
        dimension_numbers=numbers,
        slice_sizes=(*[1] * n, *mat.shape[n:]),
        mode=Word("GatherScatterMode.FILL_OR_DROP"),
        fill_value=0,
    )


def _batched(f: Any, n_batch: int) -> Any:
    """f under n_batch vmaps."""
    for _ in range(n_batch):
        f = jt.vmap(f)
    return f


def _todense(data: Any, indices: Any, *, spinfo: Any) -> Any:
    n_batch = len(indices.shape) - 2
    one = functools.partial(_scatter, shape=tuple(spinfo.shape[n_batch:]))
    return _batched(one, n_batch)(data, indices)


def _first(indices: Any, shape: Any) -> Any:
    """For each place of an array of this shape whether it was not there before."""
    n, nse = indices.shape[-1], indices.shape[0]
    numbers = lax.ScatterDimensionNumbers((), range(n), range(n))
    order = lax.iota(dtype=indices.dtype, shape=(nse,), dimension=0)
    earliest = lax.scatter_min(
        lax.full(shape, nse, indices.dtype), indices, order, dimension_numbers=numbers
    )
    return lax.eq(_gather(earliest, indices), order)


def _extract(indices: Any, mat: Any, *, assume_unique: bool) -> Any:
    def one(indices: Any, mat: Any) -> Any:
        data = _gather(mat, indices)
        if assume_unique:
            return data
        first = _first(indices, mat.shape[: indices.shape[-1]])
        keep = lax.broadcast_in_dim(first, shape=data.shape, broadcast_dimensions=(0,))
        return lax.select_n(keep, lax.zeros(data.shape, data.dtype), data)

    return _batched(one, len(indices.shape) - 2)(indices, mat)


def _columns(indices: Any, which: Any) -> Any:
    """indices[..., which]."""
    last = len(indices.shape) - 1
    head = indices.shape[:-1]
    parts = [
        lax.slice(indices, start_indices=(*[0] * last, i), limit_indices=(*head, i + 1))
        for i in which
    ]
    return lax.concatenate(*parts, dimension=last)


def _transposed(data: Any, indices: Any, *, permutation: Any, spinfo: Any) -> list[Any]:
    n_batch, n_sparse = len(indices.shape) - 2, indices.shape[-1]
    batch, rest = permutation[:n_batch], permutation[n_batch + n_sparse :]
    sparse = [i - n_batch for i in permutation[n_batch : n_batch + n_sparse]]
    moved = (*batch, n_batch, *[i - n_sparse + 1 for i in rest])
    turned = lax.transpose(indices, permutation=(*batch, n_batch, n_batch + 1))
    return [lax.transpose(data, permutation=moved), _columns(turned, sparse)]


def _dot(data: Any, indices: Any, rhs: Any, *, lhs_spinfo: Any, **params: Any) -> Any:
    """By way of the dense array, unless both have sparse axes alone and none is a batch axis."""
    (contracting, rhs_contracting), (batch, _) = params["dimension_numbers"]
    if len(indices.shape) > 2 or len(data.shape) > 1 or batch or not contracting:
        return lax.dot_general(_todense(data, indices, spinfo=lhs_spinfo), rhs, **params)
    rest = [i for i in range(len(rhs.shape)) if i not in rhs_contracting]
    rows = _gather(
        lax.transpose(rhs, permutation=(*rhs_contracting, *rest)), _columns(indices, contracting)
    )
    weights = lax.broadcast_in_dim(data, shape=rows.shape, broadcast_dimensions=(0,))
    dtype = params["preferred_element_type"] or data.dtype
    rows, weights = (lax.convert_element_type(x, new_dtype=dtype) for x in (rows, weights))
    products = lax.mul(rows, weights)
    free = [i for i in range(len(lhs_spinfo.shape)) if i not in contracting]
    if not free:
        return lax.reduce_sum(products, axes=(0,))
    shape = (*[lhs_spinfo.shape[i] for i in free], *rows.shape[1:])
    return _scatter(products, _columns(indices, free), shape)


# -- their rules ---------------------------------------------------------------------------------


def _sparse_type(name: str, data: Any, indices: Any, shape: Any) -> None:
    """Check that data and places are those of an array of this shape."""
    n_sparse = indices.shape[-1] if len(indices.shape) > 1 else 0
    n_batch = len(indices.shape) - 2
    if not n_sparse or indices.dtype.kind not in "iu":
        jt.ill_typed(f"{name}: the places are integers [batch..., nse, n_sparse], not {indices}")
    want = (*shape[:n_batch], indices.shape[-2], *shape[n_batch + n_sparse :])
    if data.shape != want or indices.shape[:-2] != tuple(shape[:n_batch]):
        jt.ill_typed(f"{name}: {data} at {indices} is no array of shape {tuple(shape)}")


def _todense_type(data: Any, indices: Any, *, spinfo: Any) -> Any:
    _sparse_type("bcoo_todense", data, indices, spinfo.shape)
    return jt.ShapedArray(tuple(spinfo.shape), data.dtype)


def _extract_type(indices: Any, mat: Any, **_: Any) -> Any:
    n_batch, n_sparse = len(indices.shape) - 2, indices.shape[-1]
    shape = (*indices.shape[:-1], *mat.shape[n_batch + n_sparse :])
    data = jt.ShapedArray(shape, mat.dtype)
    _sparse_type("bcoo_extract", data, indices, mat.shape)
    return data


def _transpose_type(data: Any, indices: Any, *, permutation: Any, spinfo: Any) -> list[Any]:
    _sparse_type("bcoo_transpose", data, indices, spinfo.shape)
    n_batch, n_sparse = len(indices.shape) - 2, indices.shape[-1]
    bounds = (0, n_batch, n_batch + n_sparse, len(spinfo.shape))
    parts = [(a, b) for a, b in itertools.pairwise(bounds)]
    if any(sorted(permutation[a:b]) != list(range(a, b)) for a, b in parts):
        jt.ill_typed(f"bcoo_transpose: permutation={tuple(permutation)} mixes kinds of axes")
    shape = [spinfo.shape[i] for i in permutation]
    batch = shape[:n_batch]
    moved = (*batch, indices.shape[-2], *shape[n_batch + n_sparse :])
    places = jt.ShapedArray((*batch, *indices.shape[-2:]), indices.dtype)
    return [jt.ShapedArray(moved, data.dtype), places]


def _dot_type(data: Any, indices: Any, rhs: Any, *, lhs_spinfo: Any, **params: Any) -> Any:
    _sparse_type("bcoo_dot_general", data, indices, lhs_spinfo.shape)
    lhs = jt.ShapedArray(tuple(lhs_spinfo.shape), data.dtype)
    program = jt.make_jaxpr(functools.partial(lax.dot_general, **params))(lhs, rhs)
    return program.jaxpr.outs[0].aval


def _with(f: Any, values: Any, which: list[int], params: Any) -> Any:
    """f as a function of some of its arguments."""

    def of_some(*xs: Any) -> Any:
        full = list(values)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        return f(*full, **params)

    return of_some


def _define(op: Any, types: Any, expand: Any) -> None:
    """All rules of a primitive from what it is in terms of others."""
    multiple = op.primitive.multiple_results

    def whole(in_avals: Any, *operands: Any, **params: Any) -> Any:
        return expand(*operands, **params)

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        live = [i for i, t in enumerate(tangents) if type(t) is not jt.Zero]
        f = _with(expand, primals, live, params)
        out = op(*primals, **params)
        _, moved = jt.jvp(f, tuple(primals[i] for i in live), tuple(tangents[i] for i in live))
        if multiple:
            moved = [moved[0], jt.Zero(jt.ShapedArray(out[1].shape, out[1].dtype))]
        return out, moved

    def transpose(ct: Any, *operands: Any, **params: Any) -> Any:
        linear = [i for i, x in enumerate(operands) if jt.is_linear(x)]
        zeros = [jt.instantiate(jt.Zero(operands[i].aval)) for i in linear]
        _, pullback = jt.vjp(_with(expand, operands, linear, params), *zeros)
        given = iter(pullback([jt.instantiate(ct[0]), jt.Zero(ct[1].aval)] if multiple else ct))
        return [next(given) if i in linear else None for i in range(len(operands))]

    def batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
        f = functools.partial(expand, **params)
        return jt.vmap(f, in_axes=tuple(dims))(*values), [0, 0] if multiple else 0

    whole.__name__ = op.primitive.name
    jt.define(
        op,
        abstract_eval=types,
        **jt.decomposed(whole),
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        cost=lambda in_avals, out_avals, **_: 2 * max(a.size for a in out_avals),
    )


_define(bcoo_todense, _todense_type, _todense)
_define(bcoo_extract, _extract_type, _extract)
_define(bcoo_transpose, _transpose_type, _transposed)
_define(bcoo_dot_general, _dot_type, _dot)
