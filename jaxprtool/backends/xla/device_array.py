"""Results that stay on the device until NumPy asks for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprtool.backends.xla.host_types import HostType

__all__ = ["DeviceArray"]


class DeviceArray:
    """An array held by XLA. It is not copied: NumPy reads the same memory, once it is computed.

    It has the methods of a read-only NumPy array, with the same results.

    Attributes:
      shape, dtype, ndim, size: as those of the NumPy array; reading them does not wait for the
        computation.
    """

    __slots__ = ("_buffer", "_host", "_kind")

    def __init__(self, kind: HostType, buffer: Any):
        self._kind, self._buffer = kind, buffer
        self._host: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._kind.shape

    @property
    def dtype(self) -> np.dtype:
        return self._kind.dtype

    @property
    def ndim(self) -> int:
        return len(self._kind.shape)

    @property
    def size(self) -> int:
        return math.prod(self._kind.shape)

    def numpy(self) -> np.ndarray:
        """The value; waits until it is computed."""
        if self._host is None:
            self._host = self._kind.read(self._buffer)
        return self._host

    def block_until_ready(self) -> DeviceArray:
        """Wait until the value is computed."""
        self._buffer.block_until_ready()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        host = self._host
        if host is None:
            host = self._host = self._kind.read(self._buffer)
        if dtype is None and not copy:
            return host
        return host.copy() if dtype is None else host.astype(dtype, copy=bool(copy))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        values = [x.numpy() if type(x) is DeviceArray else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __iter__(self) -> Any:
        return iter(self.numpy())

    def __len__(self) -> int:
        return len(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __repr__(self) -> str:
        return "DeviceA" + repr(np.asarray(self.numpy()))[1:]

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(self.numpy()[()], spec)

    def __reduce__(self) -> Any:
        return np.asarray, (np.array(self.numpy()),)


def _of_host(name: str) -> property:
    return property(lambda x: getattr(x.numpy(), name), doc=f"As `numpy.ndarray.{name}`.")


# NumPy asks for several protocols before `__array__`. So that a miss is quick, there is no `__getattr__` and no base:
# the operators of NumPy's mixin are copied, and what else an array has are properties.
for _name, _operator in vars(np.lib.mixins.NDArrayOperatorsMixin).items():
    if _name == "__hash__" or callable(_operator):
        setattr(DeviceArray, _name, _operator)
for _name in dir(np.ndarray):
    if not _name.startswith("_") and not hasattr(DeviceArray, _name):
        setattr(DeviceArray, _name, _of_host(_name))
