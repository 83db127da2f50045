"""`.npz` files, a member at a time: nothing is decompressed before its size and type are known to be those asked for.

Members that are not compressed are mapped into memory, so that a program which names one array of a large file
reads no more than that.
"""

from __future__ import annotations

import io
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["Member", "Npz", "npz_bytes", "open_regular"]

_LOCAL_HEADER = (
    30  # bytes before the name of a member, in which the lengths of name and extra data stand
)
_SUFFIX = ".npy"
_DAMAGED = "not a NumPy file, or damaged"


def open_regular(path: str) -> Any:
    """A file opened for reading bytes, which is no pipe or device: those could wait or go on for ever.

    Raises:
      UsageError: there is none, or it may not be read.
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


class Member:
    """An array in an `.npz` file, of which only the type is read until it is asked for.

    Attributes:
      shape, dtype: of the array.
    """

    def __init__(self, npz: Npz, info: zipfile.ZipInfo):
        self._npz, self._info = npz, info
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
        try:
            return np.broadcast_to(np.zeros((), self.dtype), self.shape)
        except ValueError:
            _cannot_read(self._npz.path, _DAMAGED)

    def read(self) -> np.ndarray:
        """The array; raises UsageError where the file is damaged."""
        order = "F" if self._fortran else "C"
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
    """Shape, whether the first axis varies fastest, and element type of what a `.npy` file holds."""
    form = np.lib.format
    version = form.read_magic(f)
    read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
    shape, fortran, dtype = read(f)
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
            self.zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, ValueError, OSError):
            self._file.close()
            _cannot_read(path, "not an .npz file")
        self._infos = {i.filename.removesuffix(_SUFFIX): i for i in self.zip.infolist()}

    def __getitem__(self, key: str) -> Member:
        try:
            return Member(self, self._infos[key])
        except (
            ValueError,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
            zipfile.BadZipFile,
        ):
            _cannot_read(self.path, _DAMAGED)

    def __iter__(self) -> Any:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def data_offset(self, info: zipfile.ZipInfo) -> int:
        """Where in the file the bytes of a member begin that is not compressed."""
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
