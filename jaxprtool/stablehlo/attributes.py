"""Write the attributes of a `composite` as MLIR text, from JAX's print of them or from the objects of a running JAX.

JAX keeps each attribute as (name, leaves, PyTreeDef); leaves and tree together are a value. In MLIR
NumPy scalars and arrays keep their types, Python numbers have 64 bits, dtypes are types, and lists
and dictionaries hold these and strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError
from jaxprtool.ir.dtypes import DType, dtype_of, find_dtype
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import NumpyScalar, Opaque, PrintedArray, Record, Word
from jaxprtool.ir.trees import TreeDefinition
from jaxprtool.stablehlo.text import dense, element_type, mlir_type, scalar_text

__all__ = ["composite_attributes", "quoted"]

_BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_PYTHON = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}
_BOOLEANS = {"np.True_": "true", "np.False_": "false"}


class _NoSpelling(Exception):
    """MLIR has no attribute for a value, or the text of the value is not understood."""


def composite_attributes(attributes: Any) -> str | None:
    """Return `{scale = 2.000000e+00 : f32, axes = [0 : i64, 1 : i64]}`; None where a value cannot be written."""
    if not isinstance(attributes, (tuple, list)):
        return None
    try:
        values = {name: _unflatten(tree, leaves) for name, leaves, tree in attributes}
        return _dictionary({k: v for k, v in values.items() if v is not None})
    except (_NoSpelling, TypeError, ValueError, UnsupportedError):
        return None


def _unflatten(tree: Any, leaves: Sequence[Value]) -> Value:
    """Return the value with the given structure, in which tuples are lists."""
    if not isinstance(tree, TreeDefinition):
        raise _NoSpelling(tree)
    return tree.unflatten(leaves)


def _dictionary(fields: dict[str, Any]) -> str:
    pairs = (
        f"{k if _BARE_NAME.fullmatch(k) else quoted(k)} = {_value(v)}" for k, v in fields.items()
    )
    return f"{{{', '.join(pairs)}}}"


def _value(value: Value) -> str:
    if isinstance(value, Opaque):
        array = getattr(getattr(value, "value", None), "val", None)
        if array is None:
            raise _NoSpelling(value)
        return _array(array, array.dtype)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return _dictionary(value)
    if isinstance(value, Word):
        return _BOOLEANS.get(value) or _type(find_dtype(value))
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, DType):
        return _type(value)
    if isinstance(value, Record):
        return _record(value)
    if isinstance(value, NumpyScalar):
        return _scalar(int(value), find_dtype(value.type_name.removeprefix("np.")))
    return _scalar(value, find_dtype(_PYTHON.get(type(value).__name__, "")))


def _record(value: Record) -> str:
    """Convert `np.float32(2.0)`, `dtype('float32')`, `HashableArray(array([0, 1], dtype=int32))`."""
    content = value.args[0] if len(value.args) == 1 else None
    if isinstance(content, PrintedArray):
        return _printed_array(content)
    if value.name == "dtype":
        return _type(find_dtype(str(content)))
    return _scalar(content, find_dtype(value.name.removeprefix("np.")))


def _printed_array(array: PrintedArray) -> str:
    rows, shape = array.rows, []
    at = rows
    while isinstance(at, (tuple, list)):
        if ... in at:
            raise _NoSpelling(array)
        shape.append(len(at))
        at = at[0] if at else None
    name = _PYTHON.get(type(at).__name__, "float64")
    dtype = dtype_of(array.fields.get("dtype", name))
    if dtype is None:
        raise _NoSpelling(array)
    aval = ShapedArray(array.fields.get("shape", tuple(shape)), dtype)
    return f"{dense(rows, aval)} : {mlir_type(aval)}"


def _array(array: Value, dtype: DType) -> str:
    aval = ShapedArray(array.shape, dtype_of(dtype))
    return f"{dense(array, aval)} : {mlir_type(aval)}"


def _scalar(value: Value, dtype: DType | None) -> str:
    if dtype is None or dtype.kind == "c":  # a complex number is no attribute; an array of them is
        raise _NoSpelling(value)
    text = scalar_text(value, dtype)
    return text if dtype.kind == "b" else f"{text} : {element_type(dtype)}"


def _type(dtype: DType | None) -> str:
    if dtype is None:
        raise _NoSpelling
    return element_type(dtype)


def quoted(text: str) -> str:
    """Return a text as an MLIR string."""
    return '"' + "".join(map(_character, text.encode())) + '"'


def _character(code: int) -> str:
    plain = 32 <= code < 127 and code not in b'"\\'
    return chr(code) if plain else f"\\{code:02X}"
