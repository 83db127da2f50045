"""Types and scalars as text: `f32[3,4]` to a `ShapedArray`, `1.0:f32[]` to a literal's value."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from jaxprtool.core.kinds.numbers import BRACKETS, POLYNOMIAL
from jaxprtool.ir.avals import (
    NO_GROUPS,
    AbstractToken,
    AbstractType,
    AxisGroups,
    FutureType,
    OpaqueType,
    RefType,
    ShapedArray,
    Spec,
    SymbolicDim,
)
from jaxprtool.ir.dtypes import KEYS, SEMAPHORES, DType, custom_dtype, find_dtype
from jaxprtool.ir.synonyms import close_names, dtype_meant
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import TYPE

__all__ = [
    "UNTYPED",
    "VARYING",
    "exact_text",
    "is_usual_nan",
    "read_groups",
    "read_scalar",
    "read_type",
    "scalar_text",
    "untyped_scalar",
]

UNTYPED = OpaqueType("?")  # the type of an atom whose type is missing in the text

Scalar: TypeAlias = bool | int | float | complex  # the Python value of a literal

# What varies: `{V:i}`, `{V:(i,j), U:k}`, and `{i,j}` of some earlier releases.
_AXIS = r"[^\s{}:(),\[\]]+"
_LETTER = "(?:[VUR]|U_m(?:ax|in))"
VARYING = rf"\{{(?:{_LETTER}:(?:{_AXIS}|\([^\s{{}}:()\[\]]+\))(?:, (?={_LETTER}:))?)+\}}|\{{{_AXIS}(?:,{_AXIS})*\}}"
_KEYS = "|".join(sorted({*KEYS, *(name for name, _ in KEYS.values())}))
_ARRAY = pattern(rf"(\w+(?:<(?:{_KEYS})>)?)(?:<(\w+)>)?\[([^\]]*)\]((?:{VARYING})?)")
_REF = pattern(r"(?:Mem)?Ref(?:<(?:None|([\w.]+))>)?\{(.*)\}")
_NAME = pattern(r"\w+(?:<\w+>)?")  # name of an element type: `f32`, `key<fry>`
_SPELLED = pattern(TYPE)
_GROUP = pattern(r"([VUR])(?:_(m(?:ax|in)))?:(?:\(([^()]*)\)|([^,{}()\s]+))")
_FUTURE = pattern(r"AbstractFuture\{(.*)\}")
_NUMBERS = pattern(r"\s*+\d++\s*+(?:,\s*+\d++\s*+)*+")
_DIMS = pattern(rf"((?:[^,@()]|{BRACKETS})+)(?:@(\([^()]*\)|[^,()]+))?(?:,|\Z)")
_NAMED_AXES = pattern(r"[^\s;:\[\]]+:\d+(?:, ?[^\s;:\[\]]+:\d+)*")
_SYMBOLIC = pattern(POLYNOMIAL)
_ELEMENT_LIKE = pattern(r"-\s?\d+|_\d+|(?:bf|f|i|u|c)\d+")
_NUMERIC = pattern(r"(?:bf|f|i|u|c|float|bfloat|int|uint|complex)\d+")
_OF_NUMBERS = pattern(  # of any release
    r"(?:(?:f|bf|float|bfloat)\d+(?:_\w+)?|(?:i|u|c|int|uint|complex)\d+)"
)
_WITH_BITS = pattern(r"[a-z]+\d+")
_LONG_NAMES = (
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_MAX_DIGITS = 400


def read_type(text: str) -> AbstractType:
    """Return the type that a text spells; short (`f32`) and long (`float32`) element types are understood.

    Raises:
      ValueError: with a message, when the text cannot be a type.
    """
    m = _ARRAY.fullmatch(text)
    if m is None:
        return _other_type(text)
    name, memory, dims, vary = m.groups()
    dtype = find_dtype("float0" if name == "void" else name)  # so to 0.4.28
    if dtype is None and name in SEMAPHORES:
        dtype = custom_dtype(name)
    if dtype is None:
        if found := dtype_meant(name) or _misspelt(name):
            raise ValueError(f"unknown element type {name}, did you mean {found}[{dims}]?")
        if _NUMERIC.fullmatch(name):
            raise ValueError(f"unknown element type {name} in {text}")
        if not _SPELLED.fullmatch(text):
            raise ValueError(f"malformed type {text}")
        return OpaqueType(text)
    dims, separator, axes = dims.partition(";")  # `f32[3;i:4]`: named axes, to 0.4.30
    if separator and not _NAMED_AXES.fullmatch(axes):
        raise ValueError(f"malformed dimensions in the type {text}")
    shape, spec = _read_dims(dims, text)
    return ShapedArray(
        shape, dtype, False, spec, memory or "", read_groups(vary) if vary else NO_GROUPS
    )


def read_groups(text: str) -> AxisGroups:
    """Return the axes in braces after a type: `{V:(i,j), U:k}`; in `{i,j}`, as JAX 0.7 and 0.8.0
    print it, they are varying.
    """
    inner = text[1:-1]
    if ":" not in inner:
        return AxisGroups([a.strip() for a in inner.split(",") if a.strip()])
    found: dict[str, list[str]] = {"V": [], "U": [], "R": []}
    kinds = [""]
    for letter, kind, several, one in _GROUP.findall(inner):
        found[letter] += [a.strip() for a in (several or one).split(",")]
        kinds.append(kind)
    return AxisGroups(found["V"], found["U"], found["R"], max(kinds))


def _read_dims(dims: str, text: str) -> tuple[tuple[int | SymbolicDim, ...], Spec]:
    """Shape and sharding of `8@x,4@(y,z)`."""
    if not dims or _NUMBERS.fullmatch(dims):
        return tuple([int(d) for d in dims.split(",")]) if dims else (), ()
    shape: list[int | SymbolicDim] = []
    spec: list[tuple[str, ...]] = []
    pos = 0
    if dims.endswith(","):
        raise ValueError(f"malformed dimensions in the type {text}")
    while pos < len(dims):
        m = _DIMS.match(dims, pos)
        if m is None or not m[1].strip():
            raise ValueError(f"malformed dimensions in the type {text}")
        word = m[1].strip()
        if word.isdecimal():
            shape.append(int(word))
        elif _SYMBOLIC.fullmatch(word) and not _ELEMENT_LIKE.fullmatch(word):
            shape.append(SymbolicDim(word))
        else:
            raise ValueError(f"{word} is not a dimension, in the type {text}")
        spec.append(_read_axes(m[2] or ""))
        pos = m.end()
    return tuple(shape), tuple(spec) if any(spec) else ()


def _read_axes(text: str) -> tuple[str, ...]:
    """The axes in `x` or `(x,y)`."""
    return tuple([a.strip() for a in text.strip("()").split(",") if a.strip()])


def _misspelt(name: str) -> str:
    """Return the element type whose long name is almost this one, or "".

    A less similar name may be a type that a library defines.
    """
    near = close_names(name, _LONG_NAMES, 0.85) if _WITH_BITS.fullmatch(name) else []
    return near[0] if near else ""


def _other_type(text: str) -> AbstractType:
    if text == "Tok":
        return AbstractToken()
    if m := _REF.fullmatch(text):
        return RefType(read_type(m[2].strip()), m[1] or "")
    if m := _FUTURE.fullmatch(text):
        return FutureType(read_type(m[1].strip()))
    if find_dtype(text) is not None or _NUMERIC.fullmatch(text):
        raise ValueError(f"the type {text} has no shape (a scalar is {text}[])")
    if found := dtype_meant(text):
        raise ValueError(f"unknown type {text}, did you mean {found}[]?")
    m = _NAME.match(text)
    words = (m[0], m[0].partition("<")[0]) if m else ()
    known = any(find_dtype(word) or _OF_NUMBERS.fullmatch(word) for word in words)
    if known or not _SPELLED.fullmatch(text):
        raise ValueError(f"malformed type {text}")
    return OpaqueType(text)


def read_scalar(text: str, dtype: DType) -> Scalar:
    """The Python scalar of a literal; raises ValueError when `text` is no number of that type."""
    kind = dtype.kind
    if kind == "0":
        if text not in ("(b'',)", "False"):
            raise ValueError(f"{text} is not (b'',), the one value of type {dtype}")
        return False
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of more than {_MAX_DIGITS} characters")
    value = None if kind == "b" and text not in ("True", "False") else untyped_scalar(text)
    if (kind, type(value)) not in _CASTS and text.startswith("["):
        raise ValueError("an operand that is written out is one number, and this is an array")
    found = as_scalar(value, dtype)
    if found is None and type(value) is int and (kind, int) in _CASTS:
        raise ValueError(f"{text} does not fit in {dtype}")
    if found is None:
        raise ValueError(f"{text} is not a value of type {dtype}")
    return found


def as_scalar(value: Scalar | None, dtype: DType) -> Scalar | None:
    """Convert a number to an element type; None where the type cannot represent it."""
    kind = dtype.kind
    cast = _CASTS.get((kind, type(value)))
    if cast is None:
        return None
    try:
        found = cast(value)
    except OverflowError:  # an integer larger than all floats
        return None
    return None if kind in "iu" and type(found) is int and not dtype.holds(found) else found


_CASTS: dict[tuple[str, type], Callable[[Any], Scalar]] = {
    ("b", bool): bool,
    ("i", int): int,
    ("u", int): int,
    ("f", int): float,
    ("f", float): float,
    ("c", int): complex,
    ("c", float): complex,
    ("c", complex): complex,
    ("k", int): int,
    ("?", int): int,
    ("?", float): float,
}


_INT = pattern(r"[+-]?\d+")
_FLOAT = pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|nan)")
_COMPLEX = pattern(r"\(?[-+.\dienaf]+j\)?")
_NAN = pattern(r"nan\(0x([0-9a-f]{16})\)")
_PARTS = pattern(r"complex\(([^\s,]+),([^\s,]+)\)")
_USUAL_NAN = 0x7FF8 << 48


def untyped_scalar(text: str) -> Scalar | None:
    """Return the bool, int, float or complex that a text spells, or None."""
    if text in ("True", "False"):
        return text == "True"
    if len(text) > _MAX_DIGITS:
        return None
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _COMPLEX.fullmatch(text):
        try:
            return complex(text)
        except ValueError:
            return None
    return _exact_scalar(text) if "nan(" in text else None


def _exact_scalar(text: str) -> float | complex | None:
    """Return a NaN given by its bits, as an f64: `nan(0xfff8000000000000)`,
    `complex(nan(0x...),1.0)`; None for other texts.
    """
    if m := _NAN.fullmatch(text):
        (value,) = struct.unpack(">d", bytes.fromhex(m[1]))
        return value if value != value else None
    if m := _PARTS.fullmatch(text):
        real, imag = untyped_scalar(m[1]), untyped_scalar(m[2])
        return complex(real, imag) if type(real) is float and type(imag) is float else None
    return None


def is_usual_nan(x: float) -> bool:
    """Whether a NaN has the sign and payload that reading `nan` gives."""
    return struct.unpack(">Q", struct.pack(">d", x))[0] == _USUAL_NAN


def exact_text(value: Any) -> str:
    """Return the text of a Python scalar, with the bits of NaNs that are not the usual one."""
    if type(value) is float and value != value and not is_usual_nan(value):
        return f"nan(0x{struct.pack('>d', value).hex()})"
    if type(value) is complex and value != value:
        parts = exact_text(value.real), exact_text(value.imag)
        if any("(" in p for p in parts):
            return f"complex({','.join(parts)})"
    return str(value)


def scalar_text(value: Any, dtype: Any, exact: bool = False) -> str:
    """Return a scalar as JAX prints it in a literal: as a Python scalar; with `exact`, with the
    bits of unusual NaNs.
    """
    if getattr(dtype, "kind", "") == "0":
        return "(b'',)"
    item = getattr(value, "item", None)
    if item is not None:
        if getattr(value, "shape", ()):
            return "[...]"
        value = item()
    return exact_text(value) if exact else str(value)
