"""The properties of equations and values that expressions of `assert` and `grep` compare, and the
values to compare with.

A property has a kind: a `dtype`, a `shape`, a `number`, a `text`, or several texts (`texts`), one
of which has to match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.synonyms import close_names, dtype_meant
from jaxprtool.syntax.assertions.linear_regex import LinearRegex, RegexFault
from jaxprtool.syntax.assertions.nodes import At, Attribute, Comparison, Param
from jaxprtool.syntax.assertions.types import FilterFault, memory_space, read_dims
from jaxprtool.syntax.patterns import pattern

__all__ = ["FIELDS", "FilterFault", "amount", "comparison", "param", "regex", "value_tokens"]

# The properties of values,
OF_VALUES = {
    "dtype": "dtype",
    "shape": "shape",
    "rank": "number",
    "size": "number",
    "bytes": "number",
    "memory": "memory",
    "type": "text",
    "weak": "text",
    "name": "text",
}
# and those of equations; the last five are of operations of a lowered or compiled program.
OF_EQUATIONS = {
    "scope": "text",
    "source": "text",
    "primitive": "text",
    "depth": "number",
    "inside": "texts",
    "param": "free",
    "axis": "texts",
    "dimension": "number",
    "groups": "number",
    "members": "number",
    "target": "text",
}
FIELDS = OF_VALUES | OF_EQUATIONS
_OPS = {
    "dtype": ("==", "!=", "~", "!~"),
    "shape": ("==", "!="),
    "number": ("==", "!=", "<", "<=", ">", ">="),
    "text": ("==", "!=", "~", "!~"),
    "memory": ("==", "!=", "~", "!~"),
    "texts": ("==", "!=", "~", "!~"),
    "free": ("==", "!=", "<", "<=", ">", ">=", "~", "!~"),
}
_AMOUNT = pattern(r"-?(\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_UNIT = pattern(r"(.*?)(?:([KMGTP])(i?)B?|B)?")


def comparison(given: Any, op: str, value: str, some: bool, at: At) -> Comparison:
    """Return a comparison of a property.

    Args:
      given: the words of the property, the index in brackets or None, and its position in the
        expression.
      op: the comparison operator, as written.
      value: the value to compare with, as written.
      some: whether one operand or result suffices.

    Raises:
      FilterFault: there is no such property, or it cannot be compared in this way.
    """
    attribute = _attribute(*given)
    kind = FIELDS[attribute.field]
    if op not in _OPS[kind]:
        message = f"{attribute.field} is not compared with `{op}`"
        raise FilterFault(message, f"it is with {', '.join(_OPS[kind])}")
    if some and (attribute.position is not None or attribute.field in OF_EQUATIONS):
        help = "any in.dtype == f64 asks for one operand of that type"
        raise FilterFault("`any` is for operands and results", help)
    found: Any = regex(_plain(value), at) if op in ("~", "!~") else _VALUES[kind](value)
    return Comparison(attribute, op, found, some, at)


def param(key: str, op: str, value: str, at: At) -> Param:
    """A condition on a param. Raises FilterFault."""
    if op in ("~", "!~"):
        return Param(key, op, regex(_plain(value), at), at)
    return Param(key, op, value, at)


def regex(text: str, at: At) -> LinearRegex:
    """A regular expression. Raises FilterFault."""
    try:
        return LinearRegex(text)
    except RegexFault as e:
        help = (
            "there are . [a-z] \\d \\w \\s ^ $ | ( ) * + ?; others are written with \\ before them"
        )
        raise FilterFault(f"{e.message} in the regular expression `{text}`", help) from None


def _attribute(words: list[str], index: str | None, at: At) -> Attribute:
    of = words[0] if words[0] in ("in", "out") else ""
    rest = words[1:] if of else words
    if index is not None and not (of and index.isdecimal() and len(index) < 10):
        raise FilterFault(f"[{index}] stands behind `in` or `out`: in[0].dtype == f32")
    field = rest[0] if rest else ""
    if of and field not in OF_VALUES:
        message = (
            f"operands and results have no {field}" if field else f"`{of}` alone is no property"
        )
        raise FilterFault(message, f"they have {', '.join(OF_VALUES)}")
    if not of and field in ("param", "params"):
        if len(rest) != 2:
            raise FilterFault("the key of a param is missing", "say param.axes == (0,)")
        return Attribute("", None, "param", rest[1], at)
    if field not in FIELDS or len(rest) > 1:
        near = close_names(field, FIELDS)
        name = ".".join(words)
        help = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
        raise FilterFault(f"there is no property {name}", help)
    number = None if index is None else int(index)
    return Attribute(of or ("out" if field in OF_VALUES else ""), number, field, "", at)


def _plain(value: str) -> str:
    """Remove the quotes around a text."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _memory(value: str) -> str:
    return memory_space(_plain(value))


def _dtype(value: str) -> str:
    name = _plain(value)
    found = find_dtype(name)
    if found is not None:
        return found.short
    hint = dtype_meant(name)
    help = f"did you mean {hint}?" if hint else "those of JAX are meant: f32, bf16, i32"
    raise FilterFault(f"`{name}` is no element type", help)


def _shape(value: str) -> tuple[Any, ...]:
    inside = _plain(value).strip()
    if not (inside[:1] in ("[", "(") and inside[-1:] in ("]", ")")):
        raise FilterFault(f"`{value}` is no shape", "shapes are written [2, _, 4]")
    return read_dims([d.strip() for d in inside[1:-1].split(",") if d.strip()])


def amount(value: str) -> float | None:
    """Return the number that a text spells, with a unit of bytes or without; None for another text."""
    m = _UNIT.fullmatch(value)
    digits, unit, binary = m.groups() if m is not None else (value, None, None)
    if not _AMOUNT.fullmatch(digits):
        return None
    found = float(digits) * float(1024 if binary else 1000) ** " KMGTP".index(unit or " ")
    return found if math.isfinite(found) else None


def _number(value: str) -> float:
    found = amount(_plain(value))
    if found is None:
        raise FilterFault(f"`{value}` is no number")
    return found


_VALUES: dict[str, Callable[[str], Any]] = {
    "dtype": _dtype,
    "shape": _shape,
    "number": _number,
    "text": _plain,
    "memory": _memory,
    "texts": _plain,
    "free": str,
}

_PIECE = pattern(r"[\w.+\-@<>]+|[^\s\w]")


def value_tokens(text: str) -> list[str]:
    """Cut the text of a param's value into words and marks.

    Two spellings of one value give the same tokens.

    Blanks and quotes are ignored, and so is a comma before a closing bracket; lists become tuples,
    and element types get short names.
    """
    found: list[str] = []
    pieces: list[str] = _PIECE.findall(text)
    for piece in pieces:
        if piece in "\"'":
            continue
        piece = "(" if piece == "[" else ")" if piece == "]" else piece
        if piece == ")" and found and found[-1] == ",":
            found.pop()
        dtype = find_dtype(piece)
        found.append(dtype.short if dtype is not None else _number_text(piece))
    return found


def _number_text(piece: str) -> str:
    """Return a number with a point or an exponent in a normal form."""
    if piece[0] in "+-.0123456789" and len(piece) < 40 and re.search(r"[.eE]", piece):
        try:
            return repr(float(piece))
        except ValueError:
            return piece
    return piece
