"""The types by which the host holds arguments and results of compiled programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla import client
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["HostType", "host_type", "reader", "shared_type"]


class HostType:
    """The type of an array in the form that jaxlib requires, and a reader for buffers of this type.

    `read(buffer)` waits for the value and returns it as a NumPy array.
    """

    __slots__ = ("dtype", "read", "shape", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, read: Callable[..., np.ndarray]):
        self.shape, self.dtype, self.read, self.weak_type = shape, dtype, read, False


@functools.cache
def host_type(aval: Any, is_on_host: bool = True) -> HostType:
    """Return the type by which the host holds an argument or a result: float0 as booleans, PRNG keys as words.

    Args:
      aval: its type.
      is_on_host: whether the memory of the device is the host's, and is read in place.
    """
    aval = aval.physical
    dtype = np.dtype(bool) if aval.dtype.kind == "0" else np_dtype(aval.dtype)
    return shared_type(aval.shape, dtype, is_on_host)


@functools.cache
def shared_type(shape: tuple[int, ...], dtype: np.dtype, is_on_host: bool = True) -> HostType:
    """The type of arrays of this shape and dtype; equal shapes and dtypes give the same object."""
    return HostType(shape, dtype, reader(shape, dtype, is_on_host))


def reader(
    shape: tuple[int, ...], dtype: np.dtype, is_on_host: bool = True
) -> Callable[..., np.ndarray]:
    """Return the reader of the buffer of one device; on the host the array uses the same memory,
    except for sub-byte types.
    """
    if not is_on_host:
        return functools.partial(_read, client.copy_buffer, shape, dtype)
    if dtype.isbuiltin == 1 and client.IS_READ_BY_NUMPY:
        return np.asarray
    return functools.partial(_read, client.read_buffer, shape, dtype)


def _read(read: Any, shape: tuple[int, ...], dtype: np.dtype, buffer: Any) -> np.ndarray:
    """Return a value that NumPy cannot read by itself."""
    found = read(buffer, shape, dtype)
    if found is None:  # the types of an artifact are what its file says
        message = f"the compiled program gives no {dtype.name}{list(shape)}"
        fail(UsageError, message, "artifact-types")
    return found
