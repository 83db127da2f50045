"""NumPy's protocols: what `numpy.sin(x)` and `numpy.sum(x)` do when x is a tracer.

NumPy hands over its own function, which is looked up by its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, counted, fail
from jaxprtool.ir.dtypes import BOOL, DType
from jaxprtool.ops import unary
from jaxprtool.ops.arrays.elementwise import UFUNCS, clip, round_, where
from jaxprtool.ops.arrays.products import PRODUCTS, matmul
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    dtype_named,
    dtype_of_value,
    promote_dtypes,
    shape_of,
)
from jaxprtool.ops.arrays.reductions import REDUCTIONS
from jaxprtool.ops.arrays.shaping import SHAPING, expand_dims
from jaxprtool.ops.arrays.taking import TAKING

__all__ = ["FUNCTIONS", "array_function", "array_ufunc", "call_named"]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **REDUCTIONS,
    **SHAPING,
    **PRODUCTS,
    **TAKING,
    "where": where,
    "clip": clip,
    "round": round_,
    "around": round_,
    "real": lambda x: unary.real(x) if x.dtype.kind == "c" else x,
    "imag": lambda x: unary.imag(x) if x.dtype.kind == "c" else SHAPING["zeros_like"](x),
}

_REDUCE = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_INTEGERS = "bBhHiIlLqQ"  # the codes of integer types in `ufunc.types`
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod"}
# Options that change nothing for us, and their values for which that is so.
_IDLE: dict[str, Any] = {
    "out": None,
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "subok": True,
}


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """The `__array_ufunc__` of tracers.

    Raises:
      UnsupportedError: a ufunc, a method of one or an option that has no counterpart.
    """
    name = ufunc.__name__
    dtype = options.pop("dtype", None)
    if method == "reduce" and name in _REDUCE:
        return _reduce(name, inputs[0], dtype, options)
    if method == "accumulate" and name in _ACCUMULATE:
        options = _options(f"numpy.{name}.accumulate", options, {"axis"})
        axis = options.get("axis", 0)
        return FUNCTIONS[_ACCUMULATE[name]](inputs[0], axis, dtype)
    _options(f"numpy.{name}", options, set())
    function = matmul if name in ("matmul", "matvec", "vecmat") else UFUNCS.get(name)
    if function is None or method not in ("__call__", "outer"):
        called = f"numpy.{name}" + ("" if method == "__call__" else f".{method}")
        _unknown(called)
    if method == "outer":
        x, y = inputs
        ndim = len(shape_of(x))
        x = expand_dims(x, tuple(range(ndim, ndim + len(shape_of(y))))) if shape_of(y) else x
        inputs = (x, y)
    if dtype is not None:
        inputs = _computed_in(dtype_named(dtype), ufunc, inputs)
    return function(*inputs)


def _computed_in(dtype: DType, ufunc: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a ufunc that computes in an element type: they are converted before it is applied.

    Raises:
      UsageError: an operand has a higher kind than that, or the ufunc's results are booleans, or of another type.
    """
    name = f"numpy.{ufunc.__name__}"
    if all(signature.endswith("?") for signature in ufunc.types if "O" not in signature):
        if dtype is not BOOL:
            fail(UsageError, f"the results of {name} are booleans, and dtype={dtype}", "dtype")
        return inputs
    for x in inputs:
        if promote_dtypes(dtype_of_value(x), dtype).kind not in (
            dtype.kind,
            *"iu" * dtype.is_integer,
        ):
            message = f"{name} with dtype={dtype} of an operand of {dtype_of_value(x)}"
            fail(UsageError, message, "dtype", help="convert the operand with astype")
    if dtype.is_integer and not any(
        s.endswith(f"->{s[0]}") and s[0] in _INTEGERS for s in ufunc.types
    ):
        fail(UsageError, f"{name} has no integer results, and dtype={dtype}", "dtype")
    return tuple([as_dtype(x, dtype) for x in inputs])


def _reduce(name: str, x: Any, dtype: Any, options: dict[str, Any]) -> Any:
    kept = _options(f"numpy.{name}.reduce", options, {"axis", "keepdims", "initial", "where"})
    reduced = FUNCTIONS[_REDUCE[name]]
    if dtype is None or _REDUCE[name] in ("all", "any"):
        return reduced(x, kept.pop("axis", 0), **kept)
    return reduced(as_dtype(x, dtype_named(dtype)), kept.pop("axis", 0), **kept)


def _options(name: str, options: dict[str, Any], allowed: set[str]) -> dict[str, Any]:
    """The options that matter; those that we cannot follow are refused."""
    kept = {}
    for key, value in options.items():
        if key in allowed:
            kept[key] = value
        elif key not in _IDLE or not _is_idle(value, _IDLE[key]):
            fail(
                UnsupportedError,
                f"{name}: the option {key}= is not possible while tracing",
                "option",
            )
    return kept


def _is_idle(value: Any, idle: Any) -> bool:
    return (
        value is idle or (isinstance(value, str) and value == idle) or repr(value) == "<no value>"
    )


def array_function(
    self: Any, function: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The `__array_function__` of tracers.

    Raises:
      UnsupportedError: a function or an option that has no counterpart.
    """
    name = function.__name__
    found = FUNCTIONS.get(name)
    if found is None or (function.__module__ or "").startswith("numpy.fft"):
        _unknown(f"{(function.__module__ or 'numpy').removesuffix('._core')}.{name}")
    args = list(args)
    kept = {
        k: v
        for k, v in kwargs.items()
        if not (k in _IDLE and _is_idle(v, _IDLE[k])) and repr(v) != "<no value>"
    }
    if name == "reshape" and "shape" in kept:
        kept["shape_"] = kept.pop("shape")
    return call_named(f"numpy.{name}", found, args, kept)


def call_named(
    name: str, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """A function or method of NumPy's, applied. Raises UnsupportedError for an option that has no counterpart."""
    try:
        return function(*args, **options)
    except TypeError:
        signature = inspect.signature(function)
        try:
            signature.bind(*args, **options)
        except TypeError:
            unknown = [key for key in options if key not in signature.parameters]
            what = (
                f": the option {unknown[0]}="
                if unknown
                else f" of {counted(len(args), 'argument')}"
            )
            fail(UnsupportedError, f"{name}{what} is not possible while tracing", "option")
        raise


def _unknown(name: str) -> NoReturn:
    fail(
        UnsupportedError,
        f"{name} has no counterpart for values that are traced",
        "numpy-function",
        help="write it with other functions of NumPy, or with jaxprtool.lax",
    )
