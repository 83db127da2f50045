"""Helpers of the rows of linear algebra: types of matrices, batching, and matrix algebra.

The last two axes of a value are a matrix; all axes before are batch axes.
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
    """Raise a type error for a type that is not floating or complex, or has a lower rank than
    `rank`.
    """
    if not x.dtype.is_inexact:
        ill_typed(
            f"{name} does not take {x}: its element type has to be floating or complex",
            "operand-dtype",
        )
    if x.ndim < rank:
        ill_typed(f"{name} needs an operand of rank {rank} at least, got {x}", "operand-rank")


def check_square(name: str, x: Value) -> None:
    """Raise a type error for a type that is not a square matrix of floating or complex elements."""
    check_inexact(name, x)
    if x.shape[-1] != x.shape[-2]:
        ill_typed(f"{name} needs a square matrix, got {x}", "operand-shapes")


def check_same_batch(name: str, avals: Sequence[Aval], ranks: Value) -> None:
    """Raise a type error for operands of different element types or batch axes.

    `ranks` are the ranks of the operands without batch axes.
    """
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
    """Return the type with the batch axes of a matrix x, then the axes `dims`."""
    aval = with_shape(x, (*x.shape[:-2], *dims))
    return aval if dtype is None or dtype is aval.dtype else with_dtype(aval, dtype)


def complex_dtype(dtype: DType) -> DType:
    """Return the complex type whose parts have a type: c128 for f64, c64 for other real types."""
    if dtype.kind == "c":
        return dtype
    found = find_dtype("c128" if dtype.bits == 64 else "c64")
    assert found is not None
    return found


# -- batching --------------------------------------------------------------------------------------


@Maker
def leading_batch(op: Any) -> Value:
    """Return the batch rule of a primitive whose operands and results may have leading batch
    axes.
    """
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
    """Return the transposed matrix."""
    n = get_aval(x).ndim
    return transposed(x, (*range(n - 2), n - 1, n - 2))


def conj(x: Value) -> Value:
    """Return the complex conjugate; real x itself."""
    dtype = get_aval(x).dtype
    return lax.conj(x, input_dtype=dtype) if dtype.kind == "c" else x


def adjoint(x: Value) -> Value:
    """Return the conjugate transpose."""
    return conj(swapped(x))


def real_part(x: Value) -> Value:
    """Return the real part; real x itself."""
    return lax.real(x) if get_aval(x).dtype.kind == "c" else x


def matmul(x: Value, y: Value, *, transpose_x: bool = False, transpose_y: bool = False) -> Value:
    """Return the product x y; the flags say whether x or y is transposed first."""
    n = get_aval(x).ndim - 2
    batch = tuple(range(n))
    contract = (n + (not transpose_x),), (n + transpose_y,)
    numbers = (contract, (batch, batch))
    return lax.dot_general(x, y, dimension_numbers=numbers, precision=HIGHEST)


def column_products(x: Value, y: Value) -> Value:
    """Return the diagonal of x^T y: the products of column i of x and column i of y."""
    n = get_aval(x).ndim - 2
    batch = (*range(n), n + 1)
    numbers = (((n,), (n,)), (batch, batch))
    return lax.dot_general(x, y, dimension_numbers=numbers, precision=HIGHEST)


def _triangle(x: Value, compare: Callable[..., Value]) -> Value:
    """Return the mask compare(row index, column index), of the shape of x."""
    shape = get_aval(x).shape
    n = len(shape)
    rows = lax.iota(dtype=INT32, shape=shape, dimension=n - 2)
    columns = lax.iota(dtype=INT32, shape=shape, dimension=n - 1)
    return compare(rows, columns)


def tril(x: Value, *, strict: bool = False) -> Value:
    """Return x with zeros above the diagonal; with `strict` also on it."""
    mask = _triangle(x, lax.gt if strict else lax.ge)
    return lax.select_n(mask, full(get_aval(x), 0), x)


def triu(x: Value, *, strict: bool = False) -> Value:
    """Return x with zeros below the diagonal; with `strict` also on it."""
    mask = _triangle(x, lax.lt if strict else lax.le)
    return lax.select_n(mask, full(get_aval(x), 0), x)


def _on_diagonal(shape: tuple[int, ...]) -> Value:
    n = len(shape)
    rows = lax.iota(dtype=INT32, shape=shape, dimension=n - 2)
    return lax.eq(rows, lax.iota(dtype=INT32, shape=shape, dimension=n - 1))


def eye(shape: tuple[int, ...], dtype: DType) -> Value:
    """Return matrices, possibly rectangular, with ones on the diagonal and zeros elsewhere."""
    mask = _on_diagonal(shape)
    return mask if dtype is BOOL else lax.convert_element_type(mask, new_dtype=dtype)


def diagonal(x: Value) -> Value:
    """Return the diagonal of a square matrix."""
    aval = get_aval(x)
    only = lax.select_n(_on_diagonal(aval.shape), full(aval, 0), x)
    return lax.reduce_sum(only, axes=(aval.ndim - 1,))


def rows_like(v: Value, shape: tuple[int, ...]) -> Value:
    """Return the matrix whose rows all are v."""
    n = len(shape)
    return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=(*range(n - 2), n - 1))


def columns_like(v: Value, shape: tuple[int, ...]) -> Value:
    """Return the matrix whose columns all are v."""
    return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=tuple(range(len(shape) - 1)))


def one_hot(indices: Value, dtype: DType) -> Value:
    """Return the matrix P with (P x)[i] = x[indices[i]], for permutations as products of
    matrices.
    """
    aval = get_aval(indices)
    shape = (*aval.shape, aval.shape[-1])
    places = lax.iota(dtype=aval.dtype, shape=shape, dimension=aval.ndim)
    return lax.convert_element_type(lax.eq(columns_like(indices, shape), places), new_dtype=dtype)


def scalar_type(aval: Aval) -> ShapedArray:
    """Return the type of a scalar with the element type of `aval`."""
    return ShapedArray((), aval.dtype)
