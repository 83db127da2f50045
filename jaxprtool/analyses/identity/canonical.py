"""Canonical texts: one text for each value, however it is spelled, whether it was read from a file or comes from a running JAX.

Two params, literals or constants are equal when their canonical texts are. `diff` shows these texts
and nothing else of a value, so that two equations which differ never look the same. The sign of a
zero and the bits of a NaN count. What does not count: the kinds of brackets, addresses in memory,
the class before the name of an enum's member, the kind of devices that JAX prints beside a mesh,
and digits beyond a type's precision.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache

from jaxprtool.core.kinds.functions import NAME
from jaxprtool.core.kinds.numbers import BOOLEAN, ELEMENT_TYPE, NUMBER
from jaxprtool.core.kinds.objects import POLICY
from jaxprtool.core.policies import policy_as_called, policy_name
from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.declaration import Param
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import ElementClass, EnumMember, Opaque, Record, Structured, Word
from jaxprtool.ir.references import RefIndex
from jaxprtool.ir.sharding import Mesh
from jaxprtool.syntax.elided_params import printed_params
from jaxprtool.syntax.params import format_value
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "canonical_const",
    "canonical_consts",
    "canonical_lit",
    "canonical_params",
    "canonical_scalar",
    "element_of",
    "flat_values",
]

Inner = Callable[[ClosedJaxpr], str]

SHOWN = 100  # the text of a constant of more elements than this is a digest

_ADDRESS = pattern(r"\b0x[0-9a-fA-FX]+")
_MEMBER = pattern(r"<?(?:\w+\.)*[A-Z]\w*\.([A-Z]\w*)(?:: [^<>]*>)?")
_FORMATS = {"float64": "d", "float32": "f", "complex128": "d", "complex64": "f"}


def canonical_params(eqn: JaxprEqn, inner: Inner) -> list[tuple[str, str]]:
    """Return the params of an equation as pairs of name and text, by name.

    Bookkeeping is left out, and so is a default that an equation, or its print, may leave out.
    """
    declared = eqn.primitive.params
    found = []
    for key, value in printed_params(eqn.primitive, eqn.params, lossless=True):
        declaration = declared.get(key)
        kind = declaration.kind if declaration is not None else None
        if kind is not None and kind.is_bookkeeping:
            continue
        text = canonical_value(value, inner, kind)
        if declaration is None or not _is_left_out(declaration, text, inner):
            found.append((key, text))
    return sorted(found)


def _is_left_out(declaration: Param, text: str, inner: Inner) -> bool:
    """Whether a text is that of a default which an equation, or its print, may leave out."""
    may_lack = declaration.optional or declaration.hidden != "never"
    return may_lack and text == canonical_value(declaration.default, inner, declaration.kind)


def canonical_value(value: Value, inner: Inner, kind: Kind | None = None) -> str:
    """Return the text of a param's value.

    Args:
      value: the value.
      inner: returns the text of a jaxpr inside it.
      kind: the kind of the param, where it is declared.
    """
    parts = (None,) if kind is None else kind.parts
    if POLICY in parts and (policy := policy_name(value)):
        return policy
    if isinstance(value, RefIndex) and value.is_whole:
        return str(RefIndex())
    value = policy_as_called(value) if POLICY in parts else value
    if NAME in parts and isinstance(value, (str, Word, Opaque)):
        return _ADDRESS.sub("0x", str(value))
    if isinstance(value, str):
        dtype = find_dtype(value) if ELEMENT_TYPE in parts else None
        return dtype.name if dtype is not None else _word(str(value))
    if type(value) is int and BOOLEAN in parts:
        value = bool(value)
    if isinstance(value, int) and type(value) is not bool and NUMBER in parts:
        value = float(value)
    return _inside(value, inner)


def _inside(value: Value, inner: Inner) -> str:
    if isinstance(value, ClosedJaxpr):
        return inner(value)
    if isinstance(value, (tuple, list)):
        parts = [_inside(v, inner) for v in value]
        return f"({parts[0]},)" if len(parts) == 1 else f"({_joined(parts)})"
    if isinstance(value, dict):
        pairs = [f"{_inside(k, inner)}: {_inside(v, inner)}" for k, v in value.items()]
        return f"{{{_joined(sorted(pairs))}}}"
    if isinstance(value, (frozenset, set)):
        return f"frozenset({_joined(sorted(_inside(v, inner) for v in value))})"
    if isinstance(value, Record):
        parts = [_inside(v, inner) for v in value.args]
        parts += sorted(f"{k}={_inside(v, inner)}" for k, v in value.fields.items())
        return f"{value.name}({_joined(parts)})"
    if isinstance(value, (Word, Opaque, SymbolicDim)):
        return _word(str(value))
    if isinstance(value, EnumMember):
        return value.name
    if isinstance(value, ElementClass):
        return value.dtype.name
    if isinstance(value, Mesh):  # without its devices, which each release prints in another way
        return Mesh(value.sizes, value.axis_types, value.constructor).usual
    if isinstance(value, Structured):
        return value.usual
    if isinstance(value, (bool, str)) or value is None:
        return repr(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, (float, complex)):
        return _number(value, 64)
    return _ADDRESS.sub("0x", format_value(value))


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _word(text: str) -> str:
    """Return the text of a bare name or text: an enum's member without its class, and addresses without their digits."""
    member = _MEMBER.fullmatch(text)
    return member[1] if member else _ADDRESS.sub("0x", text)


def canonical_lit(x: Lit) -> str:
    """Return the text of a literal's value, as its type holds it."""
    dtype = getattr(x.aval, "dtype", None)
    value = x.val
    if getattr(value, "shape", ()):
        return canonical_const(value, x.aval)
    item = getattr(value, "item", None)
    return canonical_scalar(item() if item is not None else value, dtype)


def canonical_scalar(value: Value, dtype: DType | None) -> str:
    """Return the text of a Python scalar as an element of a type: `2` of an f32 is `2.0`, and 1e-5 is the f32 nearest to it."""
    kind = "?" if dtype is None else dtype.kind
    if kind == "0":
        return "0"
    if dtype is not None and kind == "f" and isinstance(value, (int, float)):
        if not value or value != value:  # zeros have signs, NaNs have bits
            return _number(_rounded(float(value), dtype), _precision(dtype))
        return _text_of(float(value), dtype)
    if kind == "c" and isinstance(value, (int, float, complex)):
        half = dtype.real  # type: ignore[union-attr]
        z = complex(value)
        parts = (_number(_rounded(x, half), _precision(half)) for x in (z.real, z.imag))
        return "({}, {}j)".format(*parts)
    return str(value)


@lru_cache(maxsize=1 << 16)
def _text_of(value: float, dtype: DType) -> str:
    """Return the text of a number, neither zero nor NaN, as an element of a type of floats."""
    return _number(_rounded(value, dtype), _precision(dtype))


def element_of(value: Value, dtype: DType) -> Value:
    """Return a number as an element of a type of floats or complex numbers holds it."""
    if dtype.kind == "c" and isinstance(value, (int, float, complex)):
        z = complex(value)
        return complex(_rounded(z.real, dtype.real), _rounded(z.imag, dtype.real))
    if isinstance(value, (int, float)):
        return _rounded(float(value), dtype)
    return value


def _precision(dtype: DType) -> int:
    return dtype.bits if dtype.name in _FORMATS else 64


def _number(x: Value, bits: int) -> str:
    """Return the shortest text of a number of this width; a NaN that is not the usual one has its bits."""
    if isinstance(x, complex):
        return f"({_number(x.real, bits)}, {_number(x.imag, bits)}j)"
    if math.isnan(x):
        (word,) = struct.unpack("<Q", struct.pack("<d", x))
        return "nan" if word == 0x7FF8 << 48 else f"nan<{word:x}>"
    if bits == 64 or not math.isfinite(x):
        return repr(float(x))
    for digits in range(6, 10):
        short = float(f"{x:.{digits}g}")
        if _single(short) == x:
            return repr(short)
    return repr(x)


def _single(x: float) -> float:
    return array("f", [x])[0]


def _rounded(x: float, dtype: DType) -> float:
    """Return the number of a type that is nearest to x, for types whose literals have more digits than they hold."""
    if dtype.name == "float32":
        return _single(x)
    if not math.isfinite(x) or x == 0 or dtype.name not in _SMALL:
        return x
    digits, least = _SMALL[dtype.name]
    quantum = math.ldexp(1.0, max(math.frexp(x)[1] - 1, least) - digits)
    return math.copysign(round(x / quantum) * quantum, x)


_SMALL = {  # bits of the fraction, least exponent
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float8_e3m4": (4, -2),
    "float8_e4m3": (3, -6),
    "float8_e4m3fn": (3, -6),
    "float8_e4m3b11fnuz": (3, -10),
    "float8_e4m3fnuz": (3, -7),
    "float8_e5m2": (2, -14),
    "float8_e5m2fnuz": (2, -15),
    "float8_e8m0fnu": (0, -127),
    "float6_e2m3fn": (3, 0),
    "float6_e3m2fn": (2, -2),
    "float4_e2m1fn": (1, 0),
}


def canonical_consts(program: ClosedJaxpr) -> list[str]:
    """Return the texts of a program's constants; "" for those whose values are not known."""
    binders = program.jaxpr.const_binders
    values = [*program.consts, *[None] * (len(binders) - len(program.consts))]
    return [canonical_const(c, v.aval) for c, v in zip(values, binders, strict=True)]


def canonical_const(value: Value, aval: Aval) -> str:
    """Return the text of a constant of type `aval`; "" for one whose value is not known.

    Args:
      value: an array (NumPy's, JAX's, or the text of one), keys, a reference into a file, or None.
      aval: the type of its binder.
    """
    if value is None:
        return ""
    data = words_of_key(value)
    if not hasattr(data, "tolist"):
        return _ADDRESS.sub("0x", str(value))
    dtype = getattr(aval, "dtype", None)
    if getattr(dtype, "kind", None) == "0":
        return "(no value)"  # all values of the type are equal
    flat = flat_values(data.tolist())
    if len(flat) <= SHOWN:
        return f"[{_joined(canonical_scalar(x, dtype) for x in flat)}]"
    return f"<{len(flat)} values, SHA-256 {_digest(flat, dtype)}>"


def flat_values(values: Value) -> list[Value]:
    """Return the elements of nested lists, in order; a scalar as its only element."""
    level = [values]
    while level and isinstance(level[0], list):
        level = [x for row in level for x in row]
    return level


def _digest(flat: list[Value], dtype: DType | None) -> str:
    import hashlib  # noqa: PLC0415 (5 ms, and only large constants need it)

    code = _FORMATS.get(dtype.name) if dtype else None
    if dtype is None or code is None:
        raw = ",".join([canonical_scalar(x, dtype) for x in flat]).encode()
    else:
        parts = [p for z in flat for p in (z.real, z.imag)] if dtype.kind == "c" else flat
        raw = array(code, parts).tobytes()
    return hashlib.sha256(raw).hexdigest()[:24]
