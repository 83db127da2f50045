"""Messages of protocol buffers, read off their bytes: numbers (varints) and pieces of bytes, which is all that a profile has."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["fields", "numbers"]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number that begins at an offset, and where it ends."""
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            assert n < 1 << 64
            return n, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field of a message, in order."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        assert wire in (0, 2), f"field {key >> 3} on wire type {wire}"
        if wire == 0:
            value, at = varint(data, at)
            yield key >> 3, value
        else:
            length, at = varint(data, at)
            assert at + length <= len(data)
            yield key >> 3, data[at : at + length]
            at += length


def numbers(data: bytes) -> list[int]:
    """The numbers that a packed field holds."""
    found, at = [], 0
    while at < len(data):
        n, at = varint(data, at)
        found.append(n)
    return found
