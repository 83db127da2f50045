"""NumPy's products of arrays, in terms of `dot_general`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, are, counted, fail
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ops import binary, unary
from jaxprtool.ops.arrays.elementwise import UFUNCS
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    as_integer,
    broadcast_shapes,
    broadcast_to,
    dtype_of_value,
    result_dtype,
    shape_of,
)
from jaxprtool.ops.arrays.reductions import REDUCTIONS, normalize_axis
from jaxprtool.ops.arrays.shaping import expand_dims, reshape, transpose
from jaxprtool.ops.dot_general import dot_general

__all__ = ["PRODUCTS", "matmul"]

Axes = Sequence[int]


def _contract(a: Any, b: Any, over: tuple[Axes, Axes], batch: tuple[Axes, Axes] = ((), ())) -> Any:
    """Sum over pairs of axes; the result has the batch axes, the rest of a, the rest of b."""
    dtype = result_dtype(a, b)
    a, b = (as_dtype(x, INT32 if dtype is BOOL else dtype) for x in (a, b))
    for i, j in zip(*over, strict=True):
        if a.shape[i] != b.shape[j]:
            fail(
                UsageError,
                f"axes of sizes {a.shape[i]} and {b.shape[j]} cannot be summed over together "
                f"(operands {dtype}{list(a.shape)} and {dtype}{list(b.shape)})",
                "contraction",
            )
    pairs = tuple(tuple(map(int, axes)) for axes in over), tuple(tuple(axes) for axes in batch)
    out = dot_general(a, b, dimension_numbers=pairs)
    return UFUNCS["not_equal"](out, 0) if dtype is BOOL else out


def dot(a: Any, b: Any) -> Any:
    """`numpy.dot`: over the last axis of a and the last but one of b."""
    if not shape_of(a) or not shape_of(b):
        return binary.mul(*_scaled(a, b))
    return tensordot(a, b, ([len(shape_of(a)) - 1], [max(len(shape_of(b)) - 2, 0)]))


def _scaled(a: Any, b: Any) -> list[Any]:
    dtype = result_dtype(a, b)
    return [as_dtype(a, dtype), as_dtype(b, dtype)]


def matmul(a: Any, b: Any) -> Any:
    """Matrix product, over leading axes that broadcast."""
    x, y = shape_of(a), shape_of(b)
    if not x or not y:
        fail(UsageError, "matmul of a scalar", "matmul")
    if len(x) == 1 or len(y) <= 2:
        if len(x) == 1 and len(y) > 2:
            return _contract(b, a, ((len(y) - 2,), (0,)))
        return _contract(a, b, ((len(x) - 1,), (max(len(y) - 2, 0),)))
    if len(x) == 2:  # the axes of b lead: sum over b's rows, then put a's rows before its columns
        out = _contract(b, a, ((len(y) - 2,), (1,)))
        order = [*range(len(y) - 2), len(y) - 1, len(y) - 2]
        return transpose(out, order)
    batch = broadcast_shapes(x[:-2], y[:-2])
    a, b = broadcast_to(a, (*batch, *x[-2:])), broadcast_to(b, (*batch, *y[-2:]))
    n, axes = len(batch), tuple(range(len(batch)))
    return _contract(a, b, ((n + 1,), (n,)), (axes, axes))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes: the last of a with the first of b, or those that are named."""
    nx, ny = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, int):
        pair: tuple[Any, Any] = (range(nx - axes, nx), range(axes))
    else:
        pair = tuple(x if isinstance(x, (tuple, list)) else (x,) for x in axes)  # type: ignore[assignment]
    over = [normalize_axis(i, nx) for i in pair[0]], [normalize_axis(i, ny) for i in pair[1]]
    return _contract(a, b, over)


def inner(a: Any, b: Any) -> Any:
    """Sum over the last axes."""
    if not shape_of(a) or not shape_of(b):
        return binary.mul(*_scaled(a, b))
    return tensordot(a, b, ([-1], [-1]))


def outer(a: Any, b: Any) -> Any:
    """All products of an element of a and one of b, both taken as vectors."""
    return _contract(reshape(a, (-1,)), reshape(b, (-1,)), ((), ()))


def vdot(a: Any, b: Any) -> Any:
    """Sum of the products of conj(a) and b, both taken as vectors."""
    dtype = dtype_of_value(a)
    if dtype.kind == "c":
        a = unary.conj(a, input_dtype=dtype)
    return dot(reshape(a, (-1,)), reshape(b, (-1,)))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum of the diagonal of each matrix along two axes."""
    return REDUCTIONS["sum"](diagonal(a, offset, axis1, axis2), -1, dtype)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements (i, i + offset) of each matrix along two axes, as the last axis of the result."""
    ndim, k = len(shape_of(a)), as_integer(offset, "the offset")
    if ndim < 2:
        fail(UsageError, f"a diagonal of an array of shape {shape_of(a)}", "diagonal")
    axes = [normalize_axis(i, ndim) for i in (axis1, axis2)]
    if axes[0] == axes[1]:
        fail(
            UsageError, f"a diagonal along the axes {axis1} and {axis2}, which are one", "diagonal"
        )
    a = transpose(a, [*(i for i in range(ndim) if i not in axes), *axes])
    *rest, rows, columns = shape_of(a)
    start, n = (k, min(rows, columns - k)) if k > 0 else (-k * columns, min(rows + k, columns))
    flat, n = reshape(a, (*rest, rows * columns)), max(n, 0)
    return flat[..., start : start + n * (columns + 1) : columns + 1] if n else flat[..., :0]


def einsum(subscripts: Any, *operands: Any, optimize: Any = None) -> Any:
    """Einstein's notation, contracted from left to right; no label may occur twice in an operand."""
    if not isinstance(subscripts, str):
        fail(UnsupportedError, "einsum with lists of axes instead of letters", "einsum")
    terms, labels_out = _labels(subscripts, operands)
    result, labels = operands[0], terms[0]
    result, labels = _sum_alone(result, labels, set(labels_out).union(*terms[1:]))
    for i, (operand, term) in enumerate(zip(operands[1:], terms[1:], strict=True), 1):
        needed = set(labels_out).union(*terms[i + 1 :])
        operand, term = _sum_alone(operand, term, needed | set(labels))
        result, labels = _einsum_pair(result, labels, operand, term, needed)
    result, labels = _sum_alone(result, labels, set(labels_out))
    return transpose(result, [labels.index(c) for c in labels_out])


def _labels(subscripts: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    text = subscripts.replace(" ", "")
    inputs, arrow, out = text.partition("->")
    terms = inputs.split(",")
    if "." in text:
        fail(UnsupportedError, f"einsum {subscripts!r}: an ellipsis", "einsum")
    if not arrow:
        joined = "".join(terms)
        out = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if len(terms) != len(operands):
        message = f"einsum {subscripts!r} is for {counted(len(terms), 'operand')}, and {are(len(operands))} given"
        fail(UsageError, message, "einsum")
    for term, operand in zip(terms, operands, strict=True):
        if len(set(term)) < len(term):
            fail(UnsupportedError, f"einsum {subscripts!r}: {term!r} repeats a label", "einsum")
        if len(term) != len(shape_of(operand)):
            ndim = len(shape_of(operand))
            fail(UsageError, f"einsum {subscripts!r}: {term!r} for {ndim} dimensions", "einsum")
    if len(set(out)) < len(out) or not set(out) <= set("".join(terms)):
        fail(
            UsageError,
            f"einsum {subscripts!r}: the result has an unknown or repeated label",
            "einsum",
        )
    return terms, out


def _sum_alone(x: Any, labels: str, needed: set[str]) -> tuple[Any, str]:
    """Sum over the axes whose label occurs nowhere else."""
    alone = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not alone:
        return x, labels
    kept = "".join(c for c in labels if c in needed)
    return REDUCTIONS["sum"](x, alone, dtype=dtype_of_value(x)), kept


def _einsum_pair(x: Any, a: str, y: Any, b: str, needed: set[str]) -> tuple[Any, str]:
    shared = [c for c in a if c in b]
    batch, over = [c for c in shared if c in needed], [c for c in shared if c not in needed]
    axes = [([a.index(c) for c in cs], [b.index(c) for c in cs]) for cs in (over, batch)]
    out = _contract(x, y, axes[0], axes[1])
    rest = [c for c in a if c not in shared] + [c for c in b if c not in shared]
    return out, "".join(batch + rest)


def _kron_like(a: Any, b: Any) -> Any:
    ndim = max(len(shape_of(a)), len(shape_of(b)))
    a, b = (reshape(v, (*[1] * (ndim - len(shape_of(v))), *shape_of(v))) for v in (a, b))
    x, y = shape_of(a), shape_of(b)
    wide_a = expand_dims(a, tuple(range(1, 2 * len(x), 2)))
    wide_b = expand_dims(b, tuple(range(0, 2 * len(x), 2)))
    sizes = tuple(d for pair in zip(x, y, strict=True) for d in pair)
    dtype = result_dtype(a, b)
    product = binary.mul(*(broadcast_to(as_dtype(w, dtype), sizes) for w in (wide_a, wide_b)))
    return reshape(product, tuple(i * j for i, j in zip(x, y, strict=True)))


PRODUCTS: dict[str, Callable[..., Any]] = {
    "dot": dot,
    "matmul": matmul,
    "tensordot": tensordot,
    "inner": inner,
    "outer": outer,
    "vdot": vdot,
    "einsum": einsum,
    "trace": trace,
    "diagonal": diagonal,
    "kron": _kron_like,
}
