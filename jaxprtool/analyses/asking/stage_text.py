"""Read the operations from the text of a lowered program, StableHLO or optimised HLO.

An asynchronous operation counts once, by its start: ends are left out, and so are the wrappers of
operations that have a computation of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.syntax.patterns import pattern

__all__ = ["Operation", "read_hlo", "read_stablehlo"]


class Operation(NamedTuple):
    """An operation in a text.

    Attributes:
      name: its name, with `_` for `-`: `all_gather`.
      outs: the types of results, as far as they are arrays and the text says them.
      ins: the types of operands, likewise.
      attributes: its attributes, as texts.
      line: the number of the line in the text, from 1.
      text: that line, without blanks around it.
    """

    name: str
    outs: Sequence[ShapedArray]
    ins: Sequence[ShapedArray]
    attributes: Mapping[str, str]
    line: int
    text: str


_ELEMENTS = {"pred": "bool", "i1": "bool"}
_FLOAT8 = pattern(r"f(\d)e")


def _array(element: str, dims: Sequence[str]) -> ShapedArray | None:
    """Return the type of an array from MLIR's or HLO's name of its elements; None where it is no such type."""
    name = element.strip()
    if name.startswith("complex<"):
        name = {"complex<f32>": "c64", "complex<f64>": "c128"}.get(name, name)
    elif re.fullmatch(r"(?:ui|s)\d+", name):
        name = name.replace("ui", "u").replace("s", "i")
    else:
        name = _FLOAT8.sub(r"f\1_e", _ELEMENTS.get(name, name.lower().replace("f8e", "f8_e")))
    dtype = find_dtype(name)
    if dtype is None or not all(d.isdecimal() and len(d) < 20 for d in dims):
        return None
    try:
        return ShapedArray(tuple(map(int, dims)), dtype)
    except JaxprTypeError:
        return None


def _closing(text: str, at: int) -> int:
    """Return where the bracket at an offset closes; the end of the text where it does not."""
    depth, quoted = 0, False
    for i in range(at, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and quotes."""
    depth, quoted, start = 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1 : i] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{" or (c == "<" and text[i + 1 : i + 2] != "="):
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1 : i] != "-"):
            depth -= 1
        elif c == "," and depth <= 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _attributes(text: str) -> dict[str, str]:
    """Read `key=value` between commas."""
    pairs = [part.partition("=") for part in _parts(text)]
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


# -- HLO ----------------------------------------------------------------------------------------------

_INSTRUCTION = pattern(r"\s*(?:ROOT )?%?([\w.\-]+) = ")
_OPCODE = pattern(r"\s*([a-z][\w\-]*)\(")
_HLO_TYPE = pattern(r"(\w+)\[([\d,<=]*)\]")
_OPERAND = pattern(r"%?([\w.\-]+)$")
_WRAPPERS = ("async-start", "async-update", "async-done")


def read_hlo(text: str) -> list[Operation]:
    """Return the operations of an HLO module."""
    found: list[Operation] = []
    types: dict[str, list[ShapedArray]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line[0].isspace():
            types = {}  # another computation
        m = _INSTRUCTION.match(line)
        if m is None:
            continue
        start = m.end()
        end = _closing(line, start) + 1 if line[start : start + 1] == "(" else line.find(" ", start)
        opcode = _OPCODE.match(line, max(end, start))
        if opcode is None:
            continue
        name = opcode[1]
        outs = types[m[1]] = _hlo_results(line[start:end], name)
        if name in _WRAPPERS or name.endswith(("-done", "-update")):
            continue
        close = _closing(line, opcode.end() - 1)
        operands = [*_parts(line[opcode.end() : close])]
        ins = [t for operand in operands for t in _hlo_operand(operand, types)]
        attributes = _attributes(line[close + 1 :].lstrip(", "))
        called = name.removesuffix("-start").replace("-", "_")
        found.append(Operation(called, outs, ins, attributes, number, line.strip()))
    return found


def _hlo_results(text: str, opcode: str) -> list[ShapedArray]:
    """Return the types of results; for the start of an asynchronous operation those of the operation."""
    if opcode.endswith("-start") and text.startswith("(") and not opcode.startswith("all-reduce"):
        parts = [*_parts(text[1:-1])]
        text = parts[1] if len(parts) > 1 else text
    return _hlo_types(text)


def _hlo_types(text: str) -> list[ShapedArray]:
    found: list[ShapedArray] = []
    for element, dims in _HLO_TYPE.findall(text):
        array = _array(element, [d.lstrip("<=") for d in dims.split(",") if d])
        if array is not None:
            found.append(array)
    return found


def _hlo_operand(text: str, types: Mapping[str, list[ShapedArray]]) -> list[ShapedArray]:
    m = _OPERAND.search(text)
    if m is not None and m[1] in types:
        return types[m[1]]
    return _hlo_types(text)


# -- StableHLO ----------------------------------------------------------------------------------------

_MLIR = pattern(r'\s*(?:%[\w:]+(?:, %[\w:]+)* = )?"?(?:stablehlo|chlo|mhlo|sdy)\.([\w.]+)"?')
_TENSOR = pattern(r"tensor<((?:\d+x)*)([\w]+(?:<\w+>)?)(?:, [^<>]*)?>")
_IGNORED = ("return", "mesh")
_TARGET = pattern(r"custom_call @([\w.\-$]+)")


class _Open(NamedTuple):
    """An operation with regions, after which its types will stand."""

    name: str
    attributes: Mapping[str, str]
    line: int
    text: str
    at: int


def read_stablehlo(text: str) -> list[Operation]:
    """Return the operations of a StableHLO module."""
    found: list[Operation | None] = []
    open_: list[_Open] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("})") and open_:
            begun = open_.pop()
            ins, outs = _signature(stripped)
            found[begun.at] = Operation(
                begun.name, outs, ins, begun.attributes, begun.line, begun.text
            )
            continue
        m = _MLIR.match(line)
        if m is None or m[1] in _IGNORED:
            continue
        attributes = _mlir_attributes(line)
        if stripped.endswith("({"):
            open_.append(_Open(m[1], attributes, number, stripped, len(found)))
            found.append(None)
            continue
        ins, outs = _signature(line)
        found.append(Operation(m[1], outs, ins, attributes, number, stripped))
    return [operation for operation in found if operation is not None]


def _signature(line: str) -> tuple[list[ShapedArray], list[ShapedArray]]:
    """Return the types of operands and results, which stand after the last ` : ` outside of attributes."""
    _, _, types = line.rpartition(" : (") if " : (" in line else line.rpartition(" : ")
    ins, arrow, outs = types.rpartition(" -> ")
    if not arrow:
        return _tensors(outs), _tensors(outs)
    return _tensors(ins), _tensors(outs)


def _tensors(text: str) -> list[ShapedArray]:
    found: list[Any] = [
        _array(element, [d for d in dims.split("x") if d])
        for dims, element in _TENSOR.findall(text)
    ]
    return [array for array in found if array is not None]


def _mlir_attributes(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    start = line.find("<{")
    if start >= 0:
        found |= _attributes(line[start + 2 : _closing(line, start + 1)])
    target = _TARGET.search(line)
    if target is not None:
        found["call_target_name"] = target[1]
    return found
