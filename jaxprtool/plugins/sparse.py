"""What the plug-ins for `jax.experimental.sparse` share: the records in params, positions, and rows of rules.

The primitives are in `plugins.bcoo` (batched coordinates), `plugins.bcsr` (batched compressed rows) and `plugins.coo`
(coordinates and compressed rows of one matrix). `from_jax` keeps these primitives, as the text
does, so that `diff` finds a live program equal to its text. Their rules are defined here in terms
of `lax`. `to_jax` gives JAX's own primitive where `jax.experimental.sparse` is loaded, else one
that is computed by the rules here. The jvp of a linear primitive binds the same primitive; other
transformations give gathers, scatters, sorts and products.

A position outside the array is padding: `take` reads 0 there, and `put` drops what is written
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.enums import INDEX_MODE
from jaxprtool.ir.dtypes import INT32, INT64, DType
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import ElementClass, Record
from jaxprtool.plugins.expanded import row

__all__ = [
    "INFO",
    "LIBRARY",
    "as_type",
    "columns",
    "filled",
    "index_dtype_of",
    "integer",
    "joined",
    "linear_row",
    "located",
    "misfit",
    "numbered",
    "put",
    "remaining",
    "shape_of_info",
    "spread",
    "take",
    "transposed",
    "whole_numbers",
]

LIBRARY = "jax.experimental.sparse"


# -- params ------------------------------------------------------------------------------------


class _InfoKind(Kind):
    """The kind of params that hold the shape of a sparse array: `SparseInfo(shape=...)`,
    `BCOOInfo`, `COOInfo`.
    """

    def fits(self, value: Any) -> bool:
        fields = value.fields if isinstance(value, Record) else {}
        shape = fields.get("shape")
        return isinstance(shape, (tuple, list)) and all(type(n) is int and n >= 0 for n in shape)


INFO = _InfoKind("SparseInfo", "a SparseInfo(shape=...)", "SparseInfos", "the shape of the array")


def shape_of_info(name: str, info: Any, shape: Any) -> tuple[int, ...]:
    """Return the shape that a record holds, or, in texts of releases of JAX up to 0.2.26, the param
    `shape`.
    """
    found = shape if info is None else info.fields["shape"]
    if found is None:
        jt.ill_typed(f"{name}: no param says the shape of the sparse array", "missing-param")
    return tuple(found)


def index_dtype_of(name: str, dtype: Any) -> DType:
    """Return the element type of the param `index_dtype`. Raises JaxprTypeError where it is no
    integer type.
    """
    found = dtype.dtype if isinstance(dtype, ElementClass) else dtype
    if not found.is_integer:
        jt.ill_typed(f"{name}: index_dtype is {found}, and has to be an integer type")
    return found


def misfit(message: str) -> Any:
    """Raise JaxprTypeError for operands whose shapes do not fit together."""
    jt.ill_typed(message, "operand-shapes")


def whole_numbers(name: str, what: str, aval: Any) -> None:
    """Raise JaxprTypeError for indices that are no integers."""
    if not aval.dtype.is_integer:
        jt.ill_typed(f"{name}: {what} have to be integers, and are {aval}")


# -- arrays ------------------------------------------------------------------------------------

_FILL = INDEX_MODE.word("FILL_OR_DROP")


def remaining(n: int, *taken: Sequence[int]) -> list[int]:
    """Return the axes in range(n) that are in none of the sequences."""
    return [i for i in range(n) if not any(i in t for t in taken)]


def integer(value: int, like: Any) -> Any:
    """Return an array of one number, with the shape and element type of `like`."""
    return lax.full(like.shape, value, like.dtype)


def filled(shape: Sequence[int], dtype: DType) -> Any:
    """Return an array of zeros."""
    return lax.full(tuple(shape), False if dtype.kind == "b" else 0, dtype)


def as_type(x: Any, dtype: DType) -> Any:
    """Return x converted to an element type."""
    return x if x.dtype is dtype else lax.convert_element_type(x, new_dtype=dtype)


def numbered(shape: Sequence[int], axis: int) -> Any:
    """Return an i32 iota: each element is its index along `axis`."""
    return lax.iota(dtype=INT32, shape=tuple(shape), dimension=axis)


def transposed(x: Any, order: Sequence[int]) -> Any:
    """Return x with its first axes permuted by `order`; the other axes stay."""
    full = (*order, *range(len(order), len(x.shape)))
    return x if full == tuple(range(len(full))) else lax.transpose(x, permutation=full)


def spread(x: Any, sizes: Sequence[int]) -> Any:
    """Return x with its first axes broadcast to `sizes`."""
    shape = (*sizes, *x.shape[len(sizes) :])
    if shape == tuple(x.shape):
        return x
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(range(len(shape))))


def columns(indices: Any) -> list[Any]:
    """Return the n components [..., nse] of indices [..., nse, n]."""
    *lead, n = indices.shape
    zeros = (0,) * len(lead)
    parts = (
        lax.slice(indices, start_indices=(*zeros, i), limit_indices=(*lead, i + 1))
        for i in range(n)
    )
    return [lax.reshape(p, new_sizes=tuple(lead)) for p in parts]


def joined(parts: Sequence[Any], shape: Sequence[int], dtype: DType) -> Any:
    """Return indices [..., n] of n components [...], which have this shape; `dtype` is used where n
    is 0.
    """
    if not parts:
        return filled((*shape, 0), dtype)
    axes = tuple(range(len(shape)))
    cells = [lax.broadcast_in_dim(p, shape=(*shape, 1), broadcast_dimensions=axes) for p in parts]
    return lax.concatenate(*cells, dimension=len(shape)) if len(cells) > 1 else cells[0]


def _wide(x: Any) -> Any:
    """Return indices as i32 or i64."""
    return as_type(x, INT64 if x.dtype.itemsize == 8 else INT32)


def located(parts: Sequence[Any], sizes: Sequence[int], lead: Sequence[int], axes: int) -> Any:
    """Return the positions [*lead, axes + n] for `take` and `put`.

    Args:
      parts: n components [*lead]; negative ones count from the end.
      sizes: the sizes of the n axes that they index.
      lead: the shape of each component.
      axes: the number of first axes of `lead` that are batch axes of the array; their indices come
        first in a position.
    """
    found = [_wide(p) for p in parts]
    found = [
        lax.select_n(lax.lt(p, integer(0, p)), p, lax.add(p, integer(n, p)))
        for p, n in zip(found, sizes, strict=True)
    ]
    dtype = INT64 if any(p.dtype is INT64 for p in found) else INT32
    found = [*[numbered(lead, i) for i in range(axes)], *found]
    return joined([as_type(p, dtype) for p in found], lead, dtype)


def take(x: Any, positions: Any) -> Any:
    """Return x[positions]: [*lead, *rest] for positions [*lead, n] and x [*n axes, *rest]; 0 where
    a position is outside.
    """
    *lead, n = positions.shape
    rest = tuple(x.shape[n:])
    shape = (*lead, *rest)
    if 0 in shape or 0 in x.shape:
        return filled(shape, x.dtype)
    if n == 0:
        axes = tuple(range(len(lead), len(shape)))
        return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes)
    numbers = lax.GatherDimensionNumbers(range(len(lead), len(shape)), range(n), range(n))
    zero = False if x.dtype.kind == "b" else 0
    return lax.gather(
        x,
        positions,
        dimension_numbers=numbers,
        slice_sizes=(*(1,) * n, *rest),
        mode=_FILL,
        fill_value=zero,
    )


def put(shape: Sequence[int], positions: Any, x: Any, into: Any = None, scatter: Any = None) -> Any:
    """Return zeros [*n axes, *rest] to which x [*lead, *rest] is added at positions [*lead, n];
    those outside are dropped.

    Args:
      shape: the shape of the result.
      positions, x: the positions, and what is added there.
      into: the array to which x is added in place of zeros.
      scatter: the binding function of another scatter, in place of `scatter_add`.
    """
    *lead, n = positions.shape
    start = filled(shape, x.dtype) if into is None else into
    if 0 in shape or 0 in x.shape:
        return start
    if n == 0:
        return lax.reduce_sum(x, axes=tuple(range(len(lead))))
    numbers = lax.ScatterDimensionNumbers(range(len(lead), len(x.shape)), range(n), range(n))
    apply = lax.scatter_add if scatter is None else scatter
    return apply(start, positions, x, dimension_numbers=numbers, mode=_FILL)


# -- rows --------------------------------------------------------------------------------------


def linear_row(
    op: Any, types: Callable[..., Any], f: Callable[..., Any], linear: tuple[int, ...]
) -> None:
    """Define the row of a primitive with one result that is linear in each of some operands; the
    others are indices.

    Args:
      op, types, f: see `row`.
      linear: the positions of the linear operands.
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = op(*primals, **params)
        moved: Any = None
        for i in linear:
            if type(tangents[i]) is not jt.Zero:
                term = op(*primals[:i], tangents[i], *primals[i + 1 :], **params)
                moved = term if moved is None else lax.add_any(moved, term)
        zero = jt.Zero(jt.ShapedArray(out.shape, out.dtype))
        return out, zero if moved is None else moved

    row(op, types, f, jvp=jvp)
