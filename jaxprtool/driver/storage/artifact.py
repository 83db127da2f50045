"""The file that `compile` writes and `run` loads: a compiled program with its StableHLO.

Layout, integers little-endian:

    magic      14 bytes
    version    u32
    lengths    3 x u32: header, text, machine code
    header     JSON: `jaxlib` and `machine` that the code is for, `in` and `out`: types as [dtype, dims],
               `devices`: how many it runs on, `interface`: names and trees as in the text of a program, or null
    text       the StableHLO module, UTF-8
    code       what jaxlib serialised
    digest     SHA-256 of all that is before it

Where jaxlib or the machine is another one, the program is compiled again from the text. The digest
detects damage, not malice: the code runs as it is, so an artifact is to be trusted as any program is.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple, NoReturn

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.syntax.parse import read_interface

__all__ = ["Artifact", "decode_artifact", "encode_artifact", "is_artifact"]

Json = dict[str, Any] | list[Any] | str | float | bool | None

_MAGIC = b"JAXPRTOOL-XLA\n"
_VERSION = 1
_FIXED = struct.Struct("<14sIIII")
_DIGEST = 32


class Artifact(NamedTuple):
    """The contents of an artifact; `jaxlib` and `machine` say what `code` runs on."""

    program: StableHLO
    code: bytes
    jaxlib: str
    machine: str


def is_artifact(data: bytes) -> bool:
    """Whether a file's first bytes are those of an artifact."""
    return data[: len(_MAGIC)] == _MAGIC


def encode_artifact(artifact: Artifact) -> bytes:
    """The bytes of an artifact."""
    program = artifact.program
    fields = {
        "jaxlib": artifact.jaxlib,
        "machine": artifact.machine,
        "in": [_type_to_json(a) for a in program.in_avals],
        "out": [_type_to_json(a) for a in program.out_avals],
        "devices": program.devices,
        "interface": None if program.interface is None else str(program.interface),
    }
    header, text = json.dumps(fields).encode(), program.text.encode()
    fixed = _FIXED.pack(_MAGIC, _VERSION, len(header), len(text), len(artifact.code))
    body = b"".join([fixed, header, text, artifact.code])
    return body + _digest(body)


def _digest(data: bytes) -> bytes:
    import hashlib  # noqa: PLC0415 (5 ms, and no other verb needs it)

    return hashlib.sha256(data).digest()


def decode_artifact(data: bytes, name: str = "the artifact") -> Artifact:
    """Return the contents of an artifact.

    Args:
      data: the bytes of the file.
      name: its name in messages.

    Raises:
      UsageError: it is no artifact, is cut short or damaged, or was written by a later version.
    """
    if not is_artifact(data):
        fail(
            UsageError,
            f"{name} is no compiled program",
            "not-an-artifact",
            help="`jaxprtool compile FILE -o OUT` writes one",
        )
    if len(data) < _FIXED.size + _DIGEST:
        _damaged(name)
    _, version, *lengths = _FIXED.unpack_from(data)
    if version != _VERSION:
        fail(
            UsageError,
            f"{name} has version {version} of the format, and this jaxprtool reads {_VERSION}",
            "artifact-version",
            help="compile the program again",
        )
    end = len(data) - _DIGEST
    if _FIXED.size + sum(lengths) != end or _digest(data[:end]) != data[end:]:
        _damaged(name)
    parts: list[bytes] = []
    start = _FIXED.size
    for n in lengths:
        parts.append(data[start : start + n])
        start += n
    header, text, code = parts
    try:
        return _read_parts(header, text, code)
    except (ValueError, TypeError, LookupError, RecursionError, JaxprToolError):
        _damaged(name)


def _read_parts(header: bytes, text: bytes, code: bytes) -> Artifact:
    """Read the parts; raises one of several errors where they are not what `encode_artifact` writes."""
    fields = json.loads(header)
    ins, outs = ([_type_from_json(t) for t in fields[k]] for k in ("in", "out"))
    devices, names = fields.get("devices", 1), (fields["jaxlib"], fields["machine"])
    if type(devices) is not int or devices < 1 or not all(type(n) is str for n in names):
        raise ValueError(f"not a header: {fields}")
    said = fields.get("interface")
    interface = None if said is None else read_interface(said, len(ins), len(outs))
    program = StableHLO(text.decode(), ins, outs, devices=devices, interface=interface)
    return Artifact(program, code, *names)


def _damaged(name: str) -> NoReturn:
    fail(
        UsageError,
        f"{name} is cut short or damaged",
        "artifact-damaged",
        help="compile the program again",
    )


def _type_to_json(aval: ShapedArray) -> list[Any]:
    return [aval.dtype.name, list(aval.shape)]


def _type_from_json(fields: Any) -> ShapedArray:
    name: Json
    dims: Json
    name, dims = fields
    if type(name) is not str or find_dtype(name) is None or type(dims) is not list:
        raise ValueError(f"not a type: {fields}")
    if not all(type(d) is int and d >= 0 for d in dims):
        raise ValueError(f"not a type: {fields}")
    return ShapedArray(tuple(dims), name)
