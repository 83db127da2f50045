"""Helpers of the rows of linear algebra: types of matrices, batching, and the algebra of derivatives.

A matrix is the last two axes of a value; functions here work on batches of them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, INT32, DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue, Word
from jaxprtool.makers.axes import check_same_dtype, full, transposed, with_dtype, with_shape

__all__ = [
    "HIGHEST",
    "adjoint",
    "as_dtype",
    "check_inexact",
    "check_same_batch",
    "check_square",
    "column_products",
    "columns_like",
    "complex_dtype",
    "conj",
    "diagonal",
    "eye",
    "leading_batch",
    "matmul",
    "matrix_type",
    "one_hot",
    "real_part",
    "rows_like",
    "swapped",
    "tril",
    "triu",
]

HIGHEST = (Word("Precision.HIGHEST"), Word("Precision.HIGHEST"))

# -- types -----------------------------------------------------------------------------------------


def check_inexact(name: str, x: Value, rank: int = 2) -> None:
    """Reject what is not floating or complex, or has fewer axes than a matrix (or vector)."""
    if not x.dtype.is_inexact:
        ill_typed(
            f"{name} does not take {x}: its element type has to be floating or complex",
            "operand-dtype",
        )
    if x.ndim < rank:
        ill_typed(f"{name} needs an operand of rank {rank} at least, got {x}", "operand-rank")


def check_square(name: str, x: Value) -> None:
    """Reject what is not a square matrix of floating or complex elements."""
    check_inexact(name, x)
    if x.shape[-1] != x.shape[-2]:
        ill_typed(f"{name} needs a square matrix, got {x}", "operand-shapes")


def check_same_batch(name: str, avals: Sequence[Aval], ranks: Value) -> None:
    """Reject operands of different element types or batch axes. `ranks` are those of the operands without batch axes."""
    for a, rank in zip(avals, ranks, strict=True):
        check_inexact(name, a, rank)
    first, rank = avals[0], ranks[0]
    check_same_dtype(name, avals)
    for a, r in zip(avals[1:], ranks[1:], strict=True):
        if a.shape[: a.ndim - r] != first.shape[: first.ndim - rank]:
            ill_typed(
                f"{name} needs operands with the same batch axes, got {first} and {a}",
                "operand-shapes",
            )


def matrix_type(x: Aval, *dims: int, dtype: DType | None = None) -> Aval:
    """The type with the batch axes of a matrix x and these further ones."""
    aval = with_shape(x, (*x.shape[:-2], *dims))
    return aval if dtype is None or dtype is aval.dtype else with_dtype(aval, dtype)


def complex_dtype(dtype: DType) -> DType:
    """The complex type for parts of a type: c128 for f64, c64 for the other real ones."""
    if dtype.kind == "c":
        return dtype
    found = find_dtype("c128" if dtype.bits == 64 else "c64")
    assert found is not None
    return found


# -- batching --------------------------------------------------------------------------------------


@Maker
def leading_batch(op: Any) -> Value:
    """The rule of an operation that takes batches along leading axes of all operands and results."""
    multiple = op.primitive.multiple_results

    def batched(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
    ) -> OutAndDim:
        vals = [materialize(x, d, axis_size) for x, d in zip(vals, dims, strict=True)]
        out = op(*vals, **params)
        return (out, [0] * len(out)) if multiple else (out, 0)

    rule: Value = batched
    rule.matrices = True
    return rule


# -- algebra ---------------------------------------------------------------------------------------


def swapped(x: Value) -> Value:
    """The transposed matrix."""
    n = get_aval(x).ndim
    return transposed(x, (*range(n - 2), n - 1, n - 2))


def conj(x: Value) -> Value:
    """The complex conjugate; a real x as it is."""
    dtype = get_aval(x).dtype
    return lax.conj(x, input_dtype=dtype) if dtype.kind == "c" else x


def adjoint(x: Value) -> Value:
    """The conjugate transpose."""
    return conj(swapped(x))


def real_part(x: Value) -> Value:
    """The real part; a real x as it is."""
    return lax.real(x) if get_aval(x).dtype.kind == "c" else x


def as_dtype(x: Value, dtype: DType) -> Value:
    """x in another element type."""
    return x if get_aval(x).dtype is dtype else lax.convert_element_type(x, new_dtype=dtype)


def matmul(x: Value, y: Value, *, transpose_x: bool = False, transpose_y: bool = False) -> Value:
    """x y, with x or y transposed first where the flags say so."""
    n = get_aval(x).ndim - 2
    batch = tuple(range(n))
    contract = (n + (not transpose_x),), (n + transpose_y,)
    numbers = (contract, (batch, batch))
    return lax.dot_general(x, y, dimension_numbers=numbers, precision=HIGHEST)


def column_products(x: Value, y: Value) -> Value:
    """The diagonal of x^T y: the sums of products of the columns of x and y."""
    n = get_aval(x).ndim - 2
    batch = (*range(n), n + 1)
    numbers = (((n,), (n,)), (batch, batch))
    return lax.dot_general(x, y, dimension_numbers=numbers, precision=HIGHEST)


def _triangle(x: Value, compare: Callable[..., Value]) -> Value:
    """A mask of the type of x by compare(row index, column index)."""
    shape = get_aval(x).shape
    n = len(shape)
    rows = lax.iota(dtype=INT32, shape=shape, dimension=n - 2)
    columns = lax.iota(dtype=INT32, shape=shape, dimension=n - 1)
    return compare(rows, columns)


def tril(x: Value, *, strict: bool = False) -> Value:
    """x with zeros above the diagonal; on it as well when strict."""
    mask = _triangle(x, lax.gt if strict else lax.ge)
    return lax.select_n(mask, full(get_aval(x), 0), x)


def triu(x: Value, *, strict: bool = False) -> Value:
    """x with zeros below the diagonal; on it as well when strict."""
    mask = _triangle(x, lax.lt if strict else lax.le)
    return lax.select_n(mask, full(get_aval(x), 0), x)


def _on_diagonal(shape: tuple[int, ...]) -> Value:
    n = len(shape)
    rows = lax.iota(dtype=INT32, shape=shape, dimension=n - 2)
    return lax.eq(rows, lax.iota(dtype=INT32, shape=shape, dimension=n - 1))


def eye(shape: tuple[int, ...], dtype: DType) -> Value:
    """Identity matrices (rectangular ones too) of a type; dtype bool gives the mask of the diagonal."""
    mask = _on_diagonal(shape)
    return mask if dtype is BOOL else lax.convert_element_type(mask, new_dtype=dtype)


def diagonal(x: Value) -> Value:
    """The diagonal of a square matrix."""
    aval = get_aval(x)
    only = lax.select_n(_on_diagonal(aval.shape), full(aval, 0), x)
    return lax.reduce_sum(only, axes=(aval.ndim - 1,))


def rows_like(v: Value, shape: tuple[int, ...]) -> Value:
    """The matrix whose rows are all v."""
    n = len(shape)
    return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=(*range(n - 2), n - 1))


def columns_like(v: Value, shape: tuple[int, ...]) -> Value:
    """The matrix whose columns are all v."""
    return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=tuple(range(len(shape) - 1)))


def one_hot(indices: Value, dtype: DType) -> Value:
    """The matrix P with (P x)[i] = x[indices[i]]: permutes by a product, which is linear and batched."""
    aval = get_aval(indices)
    shape = (*aval.shape, aval.shape[-1])
    places = lax.iota(dtype=aval.dtype, shape=shape, dimension=aval.ndim)
    return lax.convert_element_type(lax.eq(columns_like(indices, shape), places), new_dtype=dtype)


def scalar_type(aval: Aval) -> ShapedArray:
    """The type of one element."""
    return ShapedArray((), aval.dtype)
