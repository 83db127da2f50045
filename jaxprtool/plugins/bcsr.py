"""Sparse arrays of `jax.experimental.sparse` by batched compressed rows (BCSR), computed by
conversion to BCOO.

An array of shape (*batch, rows, columns, *dense) is stored as data [*batch, nse, *dense], column
indices [*batch, nse], and indptr [*batch, rows + 1]: row i has the elements from indptr[i] up to
indptr[i + 1], exclusive. Elements from the last indptr on are padding. `plugins.sparse` has what
these plug-ins share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.dimension_numbers import PlainDotNumbers
from jaxprtool.core.kinds.numbers import ElementTypeOrClass
from jaxprtool.core.primitive import optional
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import INT32, DType
from jaxprtool.plugins.bcoo import extract, fromdense, layout, todense
from jaxprtool.plugins.bcoo_products import dot, dot_types
from jaxprtool.plugins.expanded import row
from jaxprtool.plugins.sparse import (
    INFO,
    LIBRARY,
    as_type,
    columns,
    index_dtype_of,
    integer,
    joined,
    linear_row,
    located,
    misfit,
    put,
    spread,
    whole_numbers,
)

__all__ = ["row_starts", "rows_of"]

Info = Annotated[Any, INFO]


@jt.primitive(multiple_results=True, library=LIBRARY)
def bcsr_fromdense(mat, *, nse: int, n_batch: int, n_dense: int, index_dtype: ElementTypeOrClass):
    """Data, indices and indptr of the first nse nonzero elements of mat, in row-major order, padded
    to nse.

    nse: the number of stored elements.
    n_batch: the number of batch axes; they are the first axes.
    n_dense: the number of dense axes; they are the last axes.
    index_dtype: the element type of indices and indptr.
    """


@jt.primitive(library=LIBRARY)
def bcsr_todense(data, indices, indptr, *, spinfo: Info):
    """The dense array: out[row of k, indices[k]] = sum of data[k] over all k there, 0 elsewhere.

    spinfo: the shape of the array, and whether its indices are sorted and unique.
    """


@jt.primitive(library=LIBRARY)
def bcsr_extract(indices, indptr, mat):
    """The elements of a dense array at indices: data[k] = mat[row of k, indices[k]]."""


@jt.primitive(library=LIBRARY)
def bcsr_dot_general(
    lhs_data,
    lhs_indices,
    lhs_indptr,
    rhs,
    *,
    dimension_numbers: PlainDotNumbers,
    preferred_element_type: DType | None = optional(None),
    lhs_spinfo: Info,
):
    """`dot_general` of a sparse and a dense array; the result is dense. Only stored elements are
    multiplied.

    dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
    preferred_element_type: the element type of the result; None for the type of the operands.
    lhs_spinfo: the shape of the sparse array, and whether its indices are sorted and unique.
    """


# -- rows and where they begin -----------------------------------------------------------------


def rows_of(indptr: Any, nse: int) -> Any:
    """Return i32[*batch, nse]: the row of each stored element; for padding, the number of rows."""
    n = len(indptr.shape) - 1
    lead = tuple(indptr.shape)
    begins = put((*lead[:n], nse), located([indptr], (nse,), lead, n), lax.full(lead, 1, INT32))
    found = lax.cumsum(begins, axis=n)
    return lax.sub(found, integer(1, found))


def row_starts(rows: Any, count: int, dtype: DType) -> Any:
    """Return indptr [*batch, count + 1] for the sorted row numbers [*batch, nse]; row numbers >=
    `count` are padding.
    """
    n = len(rows.shape) - 1
    lead = tuple(rows.shape)
    behind = lax.add(rows, integer(1, rows))
    ones = lax.full(lead, 1, INT32)
    found = put((*lead[:n], count + 1), located([behind], (count + 1,), lead, n), ones)
    return as_type(lax.cumsum(found, axis=n), dtype)


def _coordinates(indices: Any, indptr: Any) -> Any:
    """Return the BCOO indices [*batch, nse, 2]."""
    n = len(indices.shape) - 1
    batch = tuple(max(a, b) for a, b in zip(indices.shape[:n], indptr.shape[:n], strict=True))
    if 0 in (*indices.shape[:n], *indptr.shape[:n]):
        batch = tuple(min(a, b) for a, b in zip(indices.shape[:n], indptr.shape[:n], strict=True))
    rows = as_type(spread(rows_of(indptr, indices.shape[-1]), batch), indices.dtype)
    indices = spread(indices, batch)
    return joined([rows, indices], indices.shape, indices.dtype)


def _check(name: str, data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> Any:
    """Return the type of the BCOO indices. Raises JaxprTypeError where the parts do not fit
    together.
    """
    whole_numbers(name, "indices", indices)
    whole_numbers(name, "indptr", indptr)
    n = len(indices.shape) - 1
    if n < 0 or len(indptr.shape) != n + 1 or len(shape) < n + 2:
        misfit(f"{name}: indices {indices} and indptr {indptr} are not those of {tuple(shape)}")
    if indptr.shape[-1] != shape[n] + 1 or any(
        a not in (1, b) for a, b in zip(indptr.shape[:n], shape[:n], strict=True)
    ):
        misfit(f"{name}: indptr {indptr} does not say where {shape[n]} rows begin and end")
    places = jt.ShapedArray((*indices.shape, 2), indices.dtype)
    if data is not None:
        layout(name, data, places, shape)
    return places


# -- the primitives ----------------------------------------------------------------------------


def _fromdense_types(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    dtype = index_dtype_of("bcsr_fromdense", index_dtype)
    if min(nse, n_batch, n_dense) < 0 or len(mat.shape) - n_batch - n_dense != 2:
        misfit(
            f"bcsr_fromdense: n_batch={n_batch} and n_dense={n_dense} leave no two axes of {mat}"
        )
    batch = mat.shape[:n_batch]
    return [
        jt.ShapedArray((*batch, nse, *mat.shape[n_batch + 2 :]), mat.dtype),
        jt.ShapedArray((*batch, nse), dtype),
        jt.ShapedArray((*batch, mat.shape[n_batch] + 1), dtype),
    ]


def _fromdense(in_avals: Any, mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any):
    dtype = index_dtype_of("bcsr_fromdense", index_dtype)
    data, indices = fromdense(mat, nse, n_batch, n_dense, dtype)
    rows, found = columns(indices)
    return [data, found, row_starts(rows, mat.shape[n_batch], dtype)]


def _todense_types(data: Any, indices: Any, indptr: Any, *, spinfo: Any) -> Any:
    shape = tuple(spinfo.fields["shape"])
    _check("bcsr_todense", data, indices, indptr, shape)
    return jt.ShapedArray(shape, data.dtype)


def _todense(in_avals: Any, data: Any, indices: Any, indptr: Any, *, spinfo: Any) -> Any:
    return todense(data, _coordinates(indices, indptr), spinfo.fields["shape"])


def _extract_types(indices: Any, indptr: Any, mat: Any) -> Any:
    _check("bcsr_extract", None, indices, indptr, mat.shape)
    n = len(indices.shape) - 1
    if any(a not in (1, b) for a, b in zip(indices.shape[:n], mat.shape[:n], strict=True)):
        misfit(f"bcsr_extract: indices {indices} are not those of {mat}")
    return jt.ShapedArray((*mat.shape[:n], indices.shape[-1], *mat.shape[n + 2 :]), mat.dtype)


def _extract(in_avals: Any, indices: Any, indptr: Any, mat: Any) -> Any:
    return extract(_coordinates(indices, indptr), mat)


def _dot_types(data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any) -> Any:
    shape = tuple(params["lhs_spinfo"].fields["shape"])
    places = _check("bcsr_dot_general", data, indices, indptr, shape)
    numbers, dtype = params["dimension_numbers"], params.get("preferred_element_type")
    return dot_types("bcsr_dot_general", data, places, rhs, numbers, dtype, shape)


def _dot(in_avals: Any, data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any) -> Any:
    shape = tuple(params["lhs_spinfo"].fields["shape"])
    numbers, dtype = params["dimension_numbers"], params.get("preferred_element_type")
    return dot(data, _coordinates(indices, indptr), rhs, numbers, dtype, shape)


row(bcsr_fromdense, _fromdense_types, _fromdense, transpose=NONLINEAR)
linear_row(bcsr_todense, _todense_types, _todense, (0,))
linear_row(bcsr_extract, _extract_types, _extract, (2,))
linear_row(bcsr_dot_general, _dot_types, _dot, (0, 3))
