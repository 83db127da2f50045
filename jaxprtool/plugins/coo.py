"""Sparse matrices of `jax.experimental.sparse` by coordinates (COO) and by compressed rows (CSR).

A COO matrix is stored as data [nse], row [nse] and col [nse]; a CSR matrix as data [nse], column
indices [nse] and indptr [rows + 1], the first element of each row. A CSC matrix is the transpose of
a CSR matrix. `plugins.sparse` has what these plug-ins share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.numbers import ElementTypeOrClass, Shape
from jaxprtool.core.primitive import optional
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import INT32
from jaxprtool.plugins.bcoo import fromdense, todense
from jaxprtool.plugins.bcoo_products import dot
from jaxprtool.plugins.bcsr import row_starts, rows_of
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
    misfit,
    shape_of_info,
    whole_numbers,
)
from jaxprtool.rules.linalg.lu import solve_matrix

__all__: list[str] = []

Info = Annotated[Any, INFO]


@jt.primitive(multiple_results=True, library=LIBRARY)
def coo_fromdense(mat, *, nse: int, index_dtype: ElementTypeOrClass):
    """Data, row and col of the first nse nonzero elements of mat, in row-major order, padded with
    zeros at [0, 0].

    nse: the number of stored elements.
    index_dtype: the element type of row and col.
    """


@jt.primitive(library=LIBRARY)
def coo_todense(
    data, row, col, *, spinfo: Info | None = optional(None), shape: Shape | None = optional(None)
):
    """The dense matrix: what is stored at one position several times is added up.

    spinfo: the shape of the matrix, and whether its elements are sorted.
    shape: the shape, in older releases of JAX.
    """


@jt.primitive(library=LIBRARY)
def coo_matvec(
    data,
    row,
    col,
    v,
    *,
    spinfo: Info | None = optional(None),
    shape: Shape | None = optional(None),
    transpose: bool,
):
    """The product of a matrix and a vector.

    spinfo: the shape of the matrix, and whether its elements are sorted.
    shape: the shape, in older releases of JAX.
    transpose: whether the matrix is transposed first: M^T v in place of M v.
    """


@jt.primitive(like=coo_matvec, library=LIBRARY)
def coo_matmat():
    """The product of a matrix and a dense matrix."""


@jt.primitive(multiple_results=True, library=LIBRARY)
def csr_fromdense(mat, *, nse: int, index_dtype: ElementTypeOrClass):
    """Data, indices and indptr of the first nse nonzero elements of mat, in row-major order, padded
    with zeros.

    nse: the number of stored elements.
    index_dtype: the element type of indices and indptr.
    """


@jt.primitive(library=LIBRARY)
def csr_todense(data, indices, indptr, *, shape: Shape):
    """The dense matrix: what is stored at one position several times is added up.

    shape: the shape of the matrix.
    """


@jt.primitive(library=LIBRARY)
def csr_matvec(data, indices, indptr, v, *, shape: Shape, transpose: bool):
    """The product of a matrix and a vector.

    shape: the shape of the matrix.
    transpose: whether the matrix is transposed first: M^T v in place of M v.
    """


@jt.primitive(like=csr_matvec, library=LIBRARY)
def csr_matmat():
    """The product of a matrix and a dense matrix."""


@jt.primitive(library=LIBRARY)
def spsolve(data, indices, indptr, b, *, reorder: int, tol: float):
    """The x with a x = b, for a square CSR matrix a and a vector b.

    reorder: the number of the method by which a GPU solver reorders rows.
    tol: the size up to which a GPU solver takes a pivot for 0.
    """


# -- the formats -------------------------------------------------------------------------------

Format = tuple[Callable[..., Any], Callable[..., Any]]


def _coo_shape(name: str, avals: Sequence[Any], params: Any) -> tuple[int, ...]:
    """Return the shape of a COO matrix. Raises JaxprTypeError where its parts do not fit
    together.
    """
    shape = shape_of_info(name, params.get("spinfo"), params.get("shape"))
    _check(name, avals, shape, avals[0].shape)
    return shape


def _csr_shape(name: str, avals: Sequence[Any], params: Any) -> tuple[int, ...]:
    """Return the shape of a CSR matrix. Raises JaxprTypeError where its parts do not fit
    together.
    """
    shape = tuple(params["shape"])
    _check(name, avals, shape, (shape[0] + 1,) if shape else ())
    return shape


def _check(name: str, avals: Sequence[Any], shape: Sequence[int], last: Sequence[int]) -> None:
    data, first, second = avals[:3]
    whole_numbers(name, "indices", first)
    whole_numbers(name, "indices", second)
    fits = len(shape) == 2 and len(data.shape) == 1 and first.shape == data.shape
    if not fits or tuple(second.shape) != tuple(last):
        parts = ", ".join(map(str, avals[:3]))
        misfit(f"{name}: {parts} are no matrix of shape {tuple(shape)}")


def _by_coordinates(row: Any, col: Any) -> Any:
    return _pairs(row, col)


def _by_rows(indices: Any, indptr: Any) -> Any:
    return _pairs(rows_of(indptr, indices.shape[0]), indices)


def _pairs(row: Any, col: Any) -> Any:
    """Return BCOO indices [nse, 2]."""
    if row.dtype is not col.dtype:
        row, col = as_type(row, INT32), as_type(col, INT32)
    return joined([row, col], row.shape, row.dtype)


_COO: Format = (_coo_shape, _by_coordinates)
_CSR: Format = (_csr_shape, _by_rows)


# -- the primitives ----------------------------------------------------------------------------


def _fromdense_types(name: str, mat: Any, nse: int, index_dtype: Any) -> list[Any]:
    dtype = index_dtype_of(name, index_dtype)
    if len(mat.shape) != 2 or nse < 0:
        misfit(f"{name}: nse={nse} elements of a matrix, and the operand is {mat}")
    return [jt.ShapedArray((nse,), mat.dtype), *[jt.ShapedArray((nse,), dtype)] * 2]


def _coo_fromdense_types(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    return _fromdense_types("coo_fromdense", mat, nse, index_dtype)


def _csr_fromdense_types(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    data, indices, _ = _fromdense_types("csr_fromdense", mat, nse, index_dtype)
    return [data, indices, jt.ShapedArray((mat.shape[0] + 1,), indices.dtype)]


def _coo_fromdense(in_avals: Any, mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    dtype = index_dtype_of("coo_fromdense", index_dtype)
    data, indices = fromdense(mat, nse, 0, 0, dtype)
    row, col = columns(indices)
    padding = lax.eq(row, integer(mat.shape[0], row))
    return [data, *[lax.select_n(padding, x, integer(0, x)) for x in (row, col)]]


def _csr_fromdense(in_avals: Any, mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    dtype = index_dtype_of("csr_fromdense", index_dtype)
    data, indices = fromdense(mat, nse, 0, 0, dtype)
    row, col = columns(indices)
    padding = lax.eq(row, integer(mat.shape[0], row))
    return [
        data,
        lax.select_n(padding, col, integer(0, col)),
        row_starts(row, mat.shape[0], dtype),
    ]


def _dense(op: Any, form: Format) -> None:
    """Define the row of a conversion to a dense matrix."""
    shape_of, indices_of = form
    name = op.primitive.name

    def types(*avals: Any, **params: Any) -> Any:
        return jt.ShapedArray(shape_of(name, avals, params), avals[0].dtype)

    def to_dense(in_avals: Any, data: Any, first: Any, second: Any, **params: Any) -> Any:
        return todense(data, indices_of(first, second), shape_of(name, in_avals, params))

    linear_row(op, types, to_dense, (0,))


def _product(op: Any, form: Format, ndim: int) -> None:
    """Define the row of a product with a dense array of `ndim` axes."""
    shape_of, indices_of = form
    name = op.primitive.name

    def types(*avals: Any, transpose: bool, **params: Any) -> Any:
        shape = shape_of(name, avals, params)
        kept, contracted = shape[::-1] if transpose else shape
        data, x = avals[0], avals[3]
        if len(x.shape) != ndim or x.shape[0] != contracted:
            misfit(f"{name}: a matrix of shape {(kept, contracted)} has no product with {x}")
        if x.dtype is not data.dtype:
            jt.ill_typed(f"{name}: the types of the elements differ: {data} and {x}")
        return jt.ShapedArray((kept, *x.shape[1:]), x.dtype)

    def product(in_avals: Any, data: Any, first: Any, second: Any, x: Any, **params: Any) -> Any:
        shape = shape_of(name, in_avals, params)
        numbers = (((0 if params["transpose"] else 1,), (0,)), ((), ()))
        return dot(data, indices_of(first, second), x, numbers, None, shape)

    linear_row(op, types, product, (0, 3))


def _spsolve_types(*avals: Any, reorder: int, tol: float) -> Any:
    b = avals[3]
    _check("spsolve", avals, (*b.shape, *b.shape), (b.shape[0] + 1,) if b.shape else ())
    if b.dtype is not avals[0].dtype or b.dtype.kind not in "fc":
        jt.ill_typed(
            f"spsolve takes a matrix and a vector of one inexact type, not {avals[0]} and {b}"
        )
    return b


def _spsolve(
    in_avals: Any, data: Any, first: Any, second: Any, b: Any, *, reorder: int, tol: float
) -> Any:
    n = b.shape[0]
    matrix = todense(data, _by_rows(first, second), (n, n))
    x = solve_matrix(matrix, lax.reshape(b, new_sizes=(n, 1)))
    return lax.reshape(x, new_sizes=(n,))


row(spsolve, _spsolve_types, _spsolve)
row(coo_fromdense, _coo_fromdense_types, _coo_fromdense, transpose=NONLINEAR)
row(csr_fromdense, _csr_fromdense_types, _csr_fromdense, transpose=NONLINEAR)
for _form, _ops in (
    (_COO, (coo_todense, coo_matvec, coo_matmat)),
    (_CSR, (csr_todense, csr_matvec, csr_matmat)),
):
    _dense(_ops[0], _form)
    _product(_ops[1], _form, 1)
    _product(_ops[2], _form, 2)
