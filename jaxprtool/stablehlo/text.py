"""StableHLO's spelling of types, attributes and constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.avals import FIX_SIZES, AbstractToken, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.syntax.consts import has_bytes, has_odd_nans
from jaxprtool.syntax.types import is_usual_nan

__all__ = ["attribute", "dense", "int_list", "mlir_type", "scalar_text"]

_ELEMENT = {
    "bool": "i1",
    "float0": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float6_e2m3fn": "f6E2M3FN",
    "float6_e3m2fn": "f6E3M2FN",
    "float4_e2m1fn": "f4E2M1FN",
}

# (positive infinity, NaN) as bit patterns; where there is no infinity the largest value's pattern
# does not stand in for it: converting an infinity to such a type gives NaN; but the one that has no
# NaN either takes the largest value, and minus zero, as ml_dtypes does.
_SPECIAL = {
    "float16": (0x7C00, 0x7E00),
    "bfloat16": (0x7F80, 0x7FC0),
    "float32": (0x7F800000, 0x7FC00000),
    "float64": (0x7FF0000000000000, 0x7FF8000000000000),
    "float8_e3m4": (0x70, 0x78),
    "float8_e4m3": (0x78, 0x7C),
    "float8_e4m3b11fnuz": (0x80, 0x80),
    "float8_e4m3fn": (0x7F, 0x7F),
    "float8_e4m3fnuz": (0x80, 0x80),
    "float8_e5m2": (0x7C, 0x7E),
    "float8_e5m2fnuz": (0x80, 0x80),
    "float8_e8m0fnu": (0xFF, 0xFF),
    "float6_e2m3fn": (0x1F, 0x20),
    "float6_e3m2fn": (0x1F, 0x20),
    "float4_e2m1fn": (0x7, 0x8),
}
_SIGNLESS_NAN = {0x80, 0xFF}
_FRACTIONS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}  # bits of a NaN's payload

# From this many elements on a constant is written as one string of hexadecimal digits.
_LARGE = 100

_types: dict[Any, str] = {}


def element_type(dtype: DType) -> str:
    """An element type: `f32`, `ui8`, `i1`, `complex<f64>`. Raises UnsupportedError."""
    found = _ELEMENT.get(dtype.name)
    if found is None and dtype.kind in "iu":
        found = f"{'u' if dtype.kind == 'u' else ''}i{dtype.bits}"
    if found is None:
        fail(UnsupportedError, f"StableHLO has no element type {dtype}", "no-stablehlo-type")
    return found


def mlir_type(aval: Aval) -> str:
    """Return a type: `tensor<3x4xf32>`. PRNG keys are their words: key<fry>[3] is `tensor<3x2xui32>`.

    Raises UnsupportedError for types that StableHLO does not have.
    """
    text = _types.get(aval)
    if text is None:
        text = _types[aval] = _make_type(aval)
    return text


def _make_type(aval: Aval) -> str:
    if isinstance(aval, AbstractToken):
        return "!stablehlo.token"
    if not isinstance(aval, ShapedArray):
        fail(UnsupportedError, f"StableHLO has no type for {aval}", "no-stablehlo-type")
    if aval.size < 0:
        fail(
            UnsupportedError,
            f"{aval} has a symbolic dimension, and XLA compiles fixed shapes only",
            "symbolic-shape",
            help=FIX_SIZES,
        )
    dims = "".join(f"{d}x" for d in aval.shape)
    if aval.dtype.kind == "k":
        return f"tensor<{dims}{aval.dtype.bits // 32}xui32>"
    return f"tensor<{dims}{element_type(aval.dtype)}>"


def int_list(values: Sequence[int]) -> str:
    """`[0, 1]`"""
    return f"[{', '.join(map(str, values))}]"


def attribute(value: Value) -> str:
    """Return the value of an attribute: text as it is, bools, ints (i64), sequences of ints (array<i64>)."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"


def float_text(value: float, dtype: DType) -> str:
    """Return a float literal; infinities and NaN are written as bit patterns, as MLIR requires."""
    if math.isfinite(value):
        text = f"{value:e}"
        if float(text) == value:
            return text
        text = repr(value)
        mantissa, e, exponent = text.partition("e")
        return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"
    infinity, nan = _SPECIAL[dtype.name]
    bits = (_nan_bits(value, dtype) or nan) if math.isnan(value) else infinity
    if math.copysign(1.0, value) < 0 and bits not in _SIGNLESS_NAN:
        bits |= 1 << (dtype.bits - 1)
    return f"0x{bits:0{dtype.bits // 4}X}"


def _nan_bits(value: float, dtype: DType) -> int:
    """Return the bits of a NaN, without its sign; 0 where the type cannot hold its payload."""
    fraction = _FRACTIONS.get(dtype.name)
    if fraction is None or is_usual_nan(value):
        return 0
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    payload = (bits & (1 << 52) - 1) >> (52 - fraction)
    return _SPECIAL[dtype.name][0] | payload if payload else 0


def scalar_text(value: Value, dtype: DType) -> str:
    """One element: `1.000000e+00`, `true`, `-3`, `(1.0,2.0)`. Integers wrap to the type's range."""
    kind = dtype.kind
    if kind == "f":
        return float_text(float(value), dtype)
    if kind in "b0":
        return "true" if value else "false"
    if kind == "c":
        z, part = complex(value), dtype.real
        return f"({float_text(z.real, part)},{float_text(z.imag, part)})"
    value = int(value) & ((1 << dtype.bits) - 1)
    if kind == "i" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return str(value)


def dense(values: Value, aval: ShapedArray) -> str:
    """Return the attribute `dense<...>` of an array constant, without its type.

    Args:
      values: a NumPy array, an object with `__array__`, nested lists, or a number.
      aval: its type; the element type of `values` may be another of the same kind.
    """
    dtype, shape = aval.dtype, aval.shape
    if dtype.kind == "k":
        words = ShapedArray((*shape, dtype.bits // 32), "u32")
        return dense(words_of_key(values), words)
    if aval.size == 0:
        return "dense<>"
    if dtype.kind == "0":
        return "dense<false>"
    if isinstance(values, (list, tuple, bool, int, float, complex)):
        return f"dense<{_nested(values, shape, dtype)}>"
    if not hasattr(values, "tolist"):
        values = values.__array__()
    same = dtype_of(getattr(values, "dtype", None)) is dtype and hasattr(values, "tobytes")
    if same and dtype.bits >= 8 and dtype.kind != "b" and _is_exact(values, aval):
        return f'dense<"0x{values.tobytes().hex().upper()}">'
    return f"dense<{_nested(values.tolist(), shape, dtype)}>"


def _is_exact(values: Sequence[Value], aval: ShapedArray) -> bool:
    """Whether an array is written as its bytes: it is large, or it has NaNs with a sign or payload
    that numbers lose.
    """
    return aval.size > _LARGE or (has_bytes(aval.dtype) and has_odd_nans(values, aval.dtype))


def _nested(rows: Value, shape: Sequence[int], dtype: DType) -> str:
    if not shape:
        return scalar_text(rows, dtype)
    if len(shape) == 1:
        return f"[{', '.join(scalar_text(x, dtype) for x in rows)}]"
    return f"[{', '.join(_rows(rows, shape[1:], dtype))}]"


def _rows(rows: Value, shape: Sequence[int], dtype: DType) -> Iterator[str]:
    for row in rows:
        yield _nested(row, shape, dtype)
