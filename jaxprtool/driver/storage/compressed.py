"""Compressed files, as training frameworks write their logs: gzip, bzip2 and xz, within bounds."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, NoReturn

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["decompressed"]

LIMIT = 1 << 29  # bytes of text that a compressed file may hold
_PIECE = 1 << 20


class _Kind(NamedTuple):
    """A kind of compression: its first bytes, and a function that makes a decompressor."""

    magic: bytes
    name: str
    module: str
    make: str
    options: tuple[Any, ...] = ()


_KINDS = (
    _Kind(
        b"\x1f\x8b", "gzip", "zlib", "decompressobj", (31,)
    ),  # 16 + 15: gzip, with the largest window
    _Kind(b"BZh", "bzip2", "bz2", "BZ2Decompressor"),
    _Kind(b"\xfd7zXZ\x00", "xz", "lzma", "LZMADecompressor"),
    _Kind(b"\x28\xb5\x2f\xfd", "zstd", "compression.zstd", "ZstdDecompressor"),
)


def decompressed(data: bytes, name: str) -> bytes:
    """The contents of a file, decompressed where its first bytes say that it is compressed.

    Args:
      data: the bytes of the file.
      name: what to call it in messages.

    Raises:
      UsageError: it is damaged, holds more than 512 MB, or is of a kind that this Python cannot read.
    """
    kind = next((k for k in _KINDS if data.startswith(k.magic)), None)
    if kind is None:
        return data
    try:
        make = getattr(importlib.import_module(kind.module), kind.make)
    except ImportError:
        message = f"{name} is compressed with {kind.name}, which this Python cannot read"
        fail(UsageError, message, "compressed", help="decompress it first")
    pieces: list[bytes] = []
    while data:  # each member of a file that was appended to
        data = _member(make(*kind.options), data, pieces, name)
        data = data if data.startswith(kind.magic) else b""  # padding, which is not read
    return b"".join(pieces)


def _member(reader: Any, data: bytes, pieces: list[bytes], name: str) -> bytes:
    """Append the contents of one member to pieces; return the rest of the data."""
    total = sum(map(len, pieces))
    while not reader.eof:
        try:
            piece = reader.decompress(data, _PIECE)
        except Exception as e:  # each module has a class of its own, which derives from this alone
            _damaged(name, str(e))
        # zlib keeps unread input in `unconsumed_tail`, other modules inside the reader
        data = getattr(reader, "unconsumed_tail", b"")
        if not piece and not reader.eof and not data:
            _damaged(name, "it is cut short")
        total += len(piece)
        if total > LIMIT:
            fail(
                UsageError,
                f"{name} is compressed, and holds more than {LIMIT >> 20} MB",
                "too-large",
                help="decompress it first, if that is what it should hold",
            )
        pieces.append(piece)
    return reader.unused_data


def _damaged(name: str, why: str) -> NoReturn:
    fail(UsageError, f"cannot read {name}: compressed, and damaged ({why})", "unreadable-file")
