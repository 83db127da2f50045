"""The bytes of an artifact, changed: it is refused with a message, or read as what it says, in little time and memory.

Cut before machine code is loaded: that code is trusted, as any program is that one starts, and the digest guards it
against damage only. So the digest is made right again most of the time, and what is tried is the reading of
the rest: lengths, version, header, types, text, and the number of devices.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
import struct
import tracemalloc
from typing import Any

import jaxprtool as jt
from jaxprtool.backends.xla.precautions import check_devices
from jaxprtool.driver.storage.artifact import Artifact, decode_artifact, encode_artifact
from tests.fuzz.target import Failure, Target

_FIXED, _DIGEST = struct.Struct("<14sIIII"), 32
_ROOM = 1 << 20  # bytes that reading a file of a kilobyte may take
_NUMBERS = (-1, 0, 1, 2, 64, 65, 1 << 31, 1 << 32, 1 << 62, 1 << 64, 10**400, 1.5, 1e400, -0.0)
_VALUES: tuple[Any, ...] = (
    *_NUMBERS,
    *(None, True, "", "x", "f32", "float32", "key<fry>", "\ud800", [], {}, [[]], ["float32"]),
    *(["float32", [1 << 62, 1 << 62]], ["float32", [1] * 65], ["float32", [0, 1 << 62, 1 << 62]]),
    *(
        ["float32", "12"],
        ["float32", {"1": 2}],
        ["float32", [True]],
        ["nothing", [2]],
        [["f32"], [2]],
    ),
    json.loads("[" * 200 + "]" * 200),
)


@functools.cache
def _original() -> bytes:
    program = jt.parse("{ lambda ; a:f32[2] b:i32[]. let c:f32[2] = sin a in (c, b) }")
    return encode_artifact(Artifact(jt.lower(program), b"code", "0", "none"))


def _fields(rng: random.Random, fields: dict[str, Any]) -> Any:
    """The header with a few values changed."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        name, value = rng.choice([*fields, "other"]), rng.choice(_VALUES)
        if rng.random() < 0.1:
            fields.pop(name, None)
        elif name in ("in", "out") and rng.random() < 0.6:
            fields[name] = [rng.choice((["float32", [value]], value, [value, [2]]))]
        else:
            fields[name] = value
    return fields if rng.random() < 0.97 else rng.choice(_VALUES)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    """A few bytes changed, taken out, doubled or put in."""
    for _ in range(rng.choice((0, 0, 0, 1, 2, 5))):
        i = rng.randrange(len(data) + 1)
        j = i + rng.choice((0, 1, 1, 4, 100))
        put = rng.choice((b"", rng.randbytes(j - i), data[i:j] * 2, b"[" * 50_000, b"\xff"))
        data = data[:i] + put + data[j:]
    return data


def draw(rng: random.Random) -> bytes:
    data = _original()
    magic, version, *lengths = _FIXED.unpack_from(data)
    end = _FIXED.size + lengths[0]
    header = json.dumps(_fields(rng, json.loads(data[_FIXED.size : end]))).encode()
    text, code = data[end : end + lengths[1]], b"code"
    header, text = _bytes(rng, header), _bytes(rng, text)
    lengths = [len(header), len(text), len(code)]
    if rng.random() < 0.2:
        lengths[rng.randrange(3)] = rng.choice((0, 1, 1 << 31, (1 << 32) - 1))
    version = rng.choice((version,) * 20 + (0, 2, (1 << 32) - 1))
    body = _FIXED.pack(magic, version, *lengths) + header + text + code
    body = _bytes(rng, body) if rng.random() < 0.1 else body
    return body + (hashlib.sha256(body).digest() if rng.random() < 0.9 else rng.randbytes(_DIGEST))


def check(data: bytes) -> None:
    """Raise `Failure` where the reader does not say what is wrong, or takes room as the file says."""
    tracemalloc.start()
    try:
        _read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > _ROOM + 60 * len(data):
        raise Failure(f"reading {len(data):,} bytes took {peak:,}")


def _read(data: bytes) -> None:
    try:
        artifact = decode_artifact(data)
        check_devices(artifact.program, 64)
    except jt.UsageError:
        return
    if artifact.program.devices < 1:
        raise Failure(f"it is read, with {artifact.program.devices} devices")
    again = encode_artifact(artifact)
    if encode_artifact(decode_artifact(again)) != again:
        raise Failure("what was read is written otherwise")


TARGET = Target("hostile-artifact", draw, check, repr)
