"""Read `.npz` files a member at a time: a member is decompressed only after its size and type were checked.

Members that are not compressed are mapped into memory, so that a program which names one array of a
large file reads only that one.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail

__all__ = ["Member", "Npz", "npz_bytes", "open_regular"]

_LOCAL_HEADER = (
    30  # size of the header before a member's name; it has the lengths of name and extra data
)
_LONGEST_HEADER = 10_000  # most bytes of NumPy's text with the type of an array
_SUFFIX = ".npy"
_DAMAGED = "not a NumPy file, or damaged"
_ENCRYPTED = 0x1  # bit among the flags of a member
# Exceptions that reading a damaged file may raise.
_FAULTS = (
    *(ValueError, TypeError, SyntaxError, OverflowError, EOFError, OSError, RuntimeError),
    *(NotImplementedError, RecursionError, MemoryError, zipfile.BadZipFile, zlib.error),
)


def open_regular(path: str) -> Any:
    """Open a file for reading bytes; refuse pipes and devices, which could wait or go on for ever.

    Raises:
      UsageError: it does not exist, or may not be read.
    """
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            _cannot_read(path, "a folder" if stat.S_ISDIR(mode) else "not a plain file")
        return open(path, "rb")
    except OSError as e:
        _cannot_read(path, (e.strerror or str(e)).lower())


def _cannot_read(path: str, reason: str) -> NoReturn:
    fail(UsageError, f"cannot read {path}: {reason}", "unreadable-file")


@contextlib.contextmanager
def _reading(path: str, reason: str = _DAMAGED) -> Iterator[None]:
    """Convert any error that Python raises for a damaged file to a UsageError."""
    try:
        yield
    except JaxprToolError:
        raise
    except _FAULTS:
        _cannot_read(path, reason)


class Member:
    """An array in an `.npz` file, of which only the type is read before the data are needed.

    Attributes:
      shape, dtype: those of the array.
    """

    def __init__(self, npz: Npz, info: zipfile.ZipInfo):
        self._npz, self._info = npz, info
        if info.flag_bits & _ENCRYPTED:
            _cannot_read(npz.path, f"{info.filename} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _cannot_read(
                npz.path, f"{info.filename} is compressed in a way that NumPy does not use"
            )
        with npz.zip.open(info) as f:
            self.shape, self._fortran, self.dtype = _header(f, npz.path)
            self._offset = f.tell()
        if self._offset + self.nbytes != info.file_size:
            _cannot_read(npz.path, _DAMAGED)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def like(self) -> np.ndarray:
        """An array of the same type that takes no memory."""
        with _reading(self._npz.path):
            return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def read(self) -> np.ndarray:
        """The array; raises UsageError where the file is damaged."""
        order = "F" if self._fortran else "C"
        with _reading(self._npz.path):
            if self._info.compress_type == zipfile.ZIP_STORED and self.nbytes:
                start = self._npz.data_offset(self._info) + self._offset
                return np.memmap(self._npz.path, self.dtype, "r", start, self.shape, order)
            with self._npz.zip.open(self._info) as f:
                f.read(self._offset)
                data = f.read(self.nbytes)
            if len(data) != self.nbytes:
                _cannot_read(self._npz.path, _DAMAGED)
            return np.frombuffer(data, self.dtype).reshape(self.shape, order=order)


def _header(f: Any, path: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the first axis varies fastest, and element type from the header of a `.npy` file."""
    form = np.lib.format
    version = form.read_magic(f)
    wide = version != (1, 0)
    length = f.read(4 if wide else 2)
    if int.from_bytes(length, "little") > _LONGEST_HEADER:
        _cannot_read(path, _DAMAGED)
    read = form.read_array_header_2_0 if wide else form.read_array_header_1_0
    head = io.BytesIO(length + f.read(int.from_bytes(length, "little")))
    shape, fortran, dtype = read(head)
    if dtype.hasobject:
        _cannot_read(path, "it holds Python objects")
    return shape, fortran, dtype


class Npz(Mapping[str, Member]):
    """The members of an `.npz` file by name.

    Raises:
      UsageError: it cannot be read, or is no such file; reading a damaged member raises it too.
    """

    def __init__(self, path: str):
        self.path = path
        self._file = open_regular(path)
        try:
            with _reading(path, "not an .npz file"):
                self.zip = zipfile.ZipFile(self._file)
        except JaxprToolError:
            self._file.close()
            raise
        self._infos = {i.filename.removesuffix(_SUFFIX): i for i in self.zip.infolist()}

    def __getitem__(self, key: str) -> Member:
        info = self._infos[key]
        with _reading(self.path):
            return Member(self, info)

    def __iter__(self) -> Any:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def data_offset(self, info: zipfile.ZipInfo) -> int:
        """Return where in the file the bytes of an uncompressed member begin."""
        self._file.seek(info.header_offset)
        head = self._file.read(_LOCAL_HEADER)
        return info.header_offset + len(head) + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")  # fmt: skip

    def __enter__(self) -> Npz:
        return self

    def __exit__(self, *_: object) -> None:
        self.zip.close()
        self._file.close()


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of an `.npz` file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
