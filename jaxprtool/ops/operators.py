"""Operators and common methods of NumPy arrays for tracers: `x + y`, `x[i]`, `x.sum()`, `x.T`, ...

Importing this module installs them on `core.trace.Tracer`, the base class of all tracers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jaxprtool.core.trace import Tracer, fail_conversion
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ops.arrays.elementwise import UFUNCS, clip, divmod_, round_
from jaxprtool.ops.arrays.indexing import getitem
from jaxprtool.ops.arrays.products import PRODUCTS, matmul
from jaxprtool.ops.arrays.promotion import as_dtype, dtype_named
from jaxprtool.ops.arrays.protocol import FUNCTIONS, array_function, array_ufunc, call_named
from jaxprtool.ops.arrays.reductions import REDUCTIONS
from jaxprtool.ops.arrays.shaping import SHAPING, reshape, transpose
from jaxprtool.ops.arrays.taking import TAKING

__all__ = ["install"]

_BINARY: dict[str, Callable[..., Any]] = {
    "add": UFUNCS["add"],
    "sub": UFUNCS["subtract"],
    "mul": UFUNCS["multiply"],
    "truediv": UFUNCS["divide"],
    "floordiv": UFUNCS["floor_divide"],
    "mod": UFUNCS["remainder"],
    "divmod": divmod_,
    "pow": UFUNCS["power"],
    "matmul": matmul,
    "and": UFUNCS["bitwise_and"],
    "or": UFUNCS["bitwise_or"],
    "xor": UFUNCS["bitwise_xor"],
    "lshift": UFUNCS["left_shift"],
    "rshift": UFUNCS["right_shift"],
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_METHODS = {
    **REDUCTIONS,
    **{n: SHAPING[n] for n in ("ravel", "swapaxes", "squeeze", "repeat", "copy")},
    **{n: PRODUCTS[n] for n in ("dot", "trace", "diagonal")},
    **{n: TAKING[n] for n in ("take", "argsort")},
    "flatten": SHAPING["ravel"],
    "clip": clip,
    "round": round_,
    "conj": UFUNCS["conjugate"],
    "conjugate": UFUNCS["conjugate"],
}


def _is_operand(x: Any) -> bool:
    return type(x) in (bool, int, float, complex) or hasattr(x, "dtype")


def _operator(f: Callable[..., Any], reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return f(other, self) if reflected else f(self, other)

    return method


def _method(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return call_named(f"the method {name}", f, (self, *args), options)

    return method


def _reshape_method(self: Any, *shape: Any, order: str = "C") -> Any:
    if not shape:
        fail(UsageError, "reshape needs a shape", "reshape")
    return reshape(self, shape[0] if len(shape) == 1 else shape, order)


def _transpose_method(self: Any, *axes: Any) -> Any:
    if not axes or axes == (None,):
        return transpose(self)
    return transpose(self, axes[0] if isinstance(axes[0], (tuple, list)) else axes)


def _astype(self: Any, dtype: Any, copy: bool = True) -> Any:
    return as_dtype(self, dtype_named(dtype))


def _iterate(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return (getitem(self, i) for i in range(self.shape[0]))


def _setitem(self: Any, index: Any, value: Any) -> None:
    fail(
        UsageError,
        "a value that is traced cannot be changed in place",
        "assignment",
        help="build a new array with where, concatenate or lax.dynamic_update_slice",
    )


def _convert(self: Any, *_args: Any, **_options: Any) -> Any:
    lowered = self.full_lower()
    if isinstance(lowered, Tracer):
        return fail_conversion(self, "array")
    return lowered.__array__(*_args, **_options)


def install(cls: type) -> None:
    """Set the operators, methods and properties of arrays on a class of values with `shape` and
    `dtype`.
    """
    for name, f in _BINARY.items():
        setattr(cls, f"__{name}__", _operator(f, False))
        setattr(cls, f"__r{name}__", _operator(f, True))
    for name, ufunc in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _operator(UFUNCS[ufunc], False))
    for name, ufunc in _UNARY.items():
        setattr(cls, f"__{name}__", UFUNCS[ufunc])
    for name, f in _METHODS.items():
        if name not in ("norm", "amax", "amin"):
            setattr(cls, name, _method(name, f))
    properties = {
        "T": transpose,
        "mT": SHAPING["matrix_transpose"],
        "real": FUNCTIONS["real"],
        "imag": FUNCTIONS["imag"],
    }
    for name, f in properties.items():
        setattr(cls, name, property(f))
    methods = {
        "reshape": _reshape_method,
        "transpose": _transpose_method,
        "astype": _astype,
        "__getitem__": getitem,
        "__setitem__": _setitem,
        "__iter__": _iterate,
        "__array__": _convert,
        "__array_ufunc__": array_ufunc,
        "__array_function__": array_function,
    }
    for name, method in methods.items():
        setattr(cls, name, method)


install(Tracer)
