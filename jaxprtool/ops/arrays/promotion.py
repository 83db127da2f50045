"""Element types and shapes of operands made equal, by NumPy's rules (NEP 50).

Python scalars take the type of the arrays they meet, unless their kind is higher: a float among integers makes
them all f64.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxprtool.core.trace import scalar_lit
from jaxprtool.ir.diagnostics import UsageError, brief, fail
from jaxprtool.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    dtype_of,
    find_dtype,
)
from jaxprtool.ops.convert import convert_element_type
from jaxprtool.ops.shape import broadcast_in_dim

__all__ = [
    "as_dtype",
    "as_integer",
    "as_sizes",
    "broadcast_shapes",
    "broadcast_to",
    "dtype_named",
    "dtype_of_value",
    "float_dtype",
    "promote",
    "promote_dtypes",
    "result_dtype",
    "shape_of",
]

_PYTHON = {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a value; () for a Python scalar."""
    shape = () if type(x) in _PYTHON else getattr(x, "shape", None)
    return shape if isinstance(shape, tuple) else _no_operand(x)


def dtype_of_value(x: Any) -> DType:
    """The element type of a value; NumPy's default for a Python scalar."""
    return _PYTHON.get(type(x)) or dtype_of(getattr(x, "dtype", None)) or _no_operand(x)


def _no_operand(x: Any) -> NoReturn:
    kind = type(x).__name__
    fail(UsageError, f"an operand is no array and no number but a {kind}: {brief(x)}", "operand")


def as_integer(x: Any, what: str) -> int:
    """x as an integer of Python's; UsageError calls it `what` where it is none."""
    try:
        return operator.index(x)
    except TypeError:
        return fail(UsageError, f"{what} is {brief(x)}, and an integer is needed", "integer")


def as_sizes(shape: Any) -> tuple[int, ...]:
    """A shape that is given as its sizes, or as its only one."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple([as_integer(d, "a size of the shape") for d in sizes])


def dtype_named(dtype: Any) -> DType:
    """The element type that a `dtype` argument means."""
    found = dtype_of(dtype)
    if found is None:
        fail(UsageError, f"not an element type: {dtype!r}", "dtype")
    return found


def promote_dtypes(a: DType, b: DType) -> DType:
    """The smallest type that holds both, as `numpy.promote_types` has it."""
    if a is b or b is BOOL:
        return a
    if a is BOOL:
        return b
    if _RANK.get(a.kind, -1) > _RANK.get(b.kind, -1):
        a, b = b, a
    if a.kind not in _RANK or b.kind not in _RANK:
        fail(UsageError, f"{a} and {b} have no common type", "operand-types")
    if b.kind == "c":
        return COMPLEX64 if promote_dtypes(a.real, b.real).bits <= 32 else COMPLEX128
    if b.kind == "f":
        return _promote_floats(a if a.kind == "f" else _float_for(a, b), b)
    return _promote_integers(a, b)


def _promote_floats(a: DType, b: DType) -> DType:
    if a is b:
        return a
    return FLOAT32 if a.bits == b.bits == 16 else max(a, b, key=lambda d: d.bits)


def _float_for(a: DType, b: DType) -> DType:
    """The float type that an integer type becomes when it meets the float type b."""
    if b is BFLOAT16:
        return b
    return FLOAT16 if a.bits <= 8 else FLOAT32 if a.bits <= 16 else FLOAT64


def _promote_integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return max(a, b, key=lambda d: d.bits)
    unsigned, signed = (a, b) if a.kind == "u" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return FLOAT64 if unsigned.bits >= 64 else find_dtype(f"i{2 * unsigned.bits}") or INT64


def _promote_scalar(dtype: DType, scalar: Any) -> DType:
    """The type of arrays of `dtype` with a Python scalar."""
    rank = {bool: 0, int: 1, float: 2, complex: 3}[type(scalar)]
    if _RANK.get(dtype.kind, 3) >= rank:
        return dtype
    if rank == 3 and dtype.kind == "f":
        return COMPLEX128 if dtype.bits == 64 else COMPLEX64
    return _PYTHON[type(scalar)]


def result_dtype(*xs: Any) -> DType:
    """The common element type of values, Python scalars being weak."""
    found: DType | None = None
    for x in xs:
        if type(x) not in _PYTHON:
            dtype = dtype_of_value(x)
            found = dtype if found is None else promote_dtypes(found, dtype)
    for x in xs:
        if type(x) in _PYTHON:
            found = _PYTHON[type(x)] if found is None else _promote_scalar(found, x)
    assert found is not None
    return found


def float_dtype(dtype: DType) -> DType:
    """The type of a function like sin of that type: NumPy takes the smallest float that holds an integer."""
    return dtype if dtype.is_inexact else _float_for(dtype, FLOAT16)


def as_dtype(x: Any, dtype: DType) -> Any:
    """x in another element type; a Python scalar becomes a literal of it."""
    if type(x) in _PYTHON:
        if type(x) is int and dtype.is_integer:
            low = 0 if dtype.kind == "u" else -(1 << dtype.bits - 1)
            if not low <= x < low + (1 << dtype.bits):
                fail(UsageError, f"the Python integer {x} is out of bounds for {dtype}", "bounds")
        return scalar_lit(bool(x) if dtype is BOOL else x, dtype)
    return x if dtype_of_value(x) is dtype else convert_element_type(x, new_dtype=dtype)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all of these broadcast to."""
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for shape in shapes:
        for i, d in enumerate(shape, ndim - len(shape)):
            if d != 1 and out[i] != 1 and d != out[i]:
                listed = ", ".join(str(tuple(s)) for s in shapes)
                fail(UsageError, f"the shapes {listed} do not broadcast together", "broadcast")
            if d != 1:
                out[i] = d
    return tuple(out)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """x repeated to a larger shape."""
    shape = tuple(shape)
    own = shape_of(x)
    if own == shape:
        return x
    if broadcast_shapes(own, shape) != shape:
        fail(UsageError, f"the shape {own} does not broadcast to {shape}", "broadcast")
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims)


def promote(*xs: Any, dtype: DType | None = None) -> list[Any]:
    """Operands for an elementwise primitive: one element type, and one shape or rank 0."""
    dtype = dtype or result_dtype(*xs)
    shape = broadcast_shapes(*map(shape_of, xs))
    typed = [as_dtype(x, dtype) for x in xs]
    return [x if x.shape == () else broadcast_to(x, shape) for x in typed]
