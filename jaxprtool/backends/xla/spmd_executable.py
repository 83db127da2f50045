"""Compiled programs on several devices, of one process or of several."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.xla import client
from jaxprtool.backends.xla.client import Runtime
from jaxprtool.backends.xla.device_array import DeviceArray
from jaxprtool.backends.xla.executable import Executable
from jaxprtool.backends.xla.failures import cannot_run
from jaxprtool.backends.xla.host_types import HostType, reader, shared_type
from jaxprtool.backends.xla.spmd import Shards, gathering, joined_type, shard_slices
from jaxprtool.stablehlo.module import StableHLO

__all__ = ["SharedExecutable", "SpmdExecutable"]


class SpmdExecutable(Executable):
    """A program compiled for several devices: XLA says which part of each array a device holds."""

    def __init__(self, program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""):
        super().__init__(program, loaded, r, machine_code)
        n = program.devices
        ins, self._tilings = client.tilings(loaded, len(self._in), len(self._out))
        self._parts = [shard_slices(t, k.shape, n) for t, k in zip(ins, self._in, strict=True)]
        self._out_parts = [
            shard_slices(t, k.shape, n) for t, k in zip(self._tilings, self._out, strict=True)
        ]
        read = functools.partial(reader, is_on_host=r.is_on_host)
        self._joined = [
            joined_type(k, read, parts) for k, parts in zip(self._out, self._out_parts, strict=True)
        ]

    @property
    def call(self) -> Callable[..., list[Any]]:
        return self.__call__

    def __call__(self, *args: Any) -> list[Any]:
        try:
            buffers = [x._buffer for x in self.place(args)]
            results = self._results(self._execute(buffers))
        except RuntimeError as e:
            cannot_run(e)
        return self._special(results) if self._has_special else results

    def _results(self, outs: Any) -> list[Any]:
        buffers = client.by_device(outs)
        return [DeviceArray(t, Shards(b)) for b, t in zip(buffers, self._joined, strict=True)]

    def place(self, args: Sequence[Any]) -> list[DeviceArray]:
        """Return arguments as arrays on the devices, each device holding its part."""
        self._check_count(args)
        return [self._spread(x, i) for i, x in enumerate(args)]

    def _spread(self, x: Any, i: int) -> DeviceArray:
        kind, r = self._in[i], self._runtime
        if type(x) is DeviceArray and x._kind is kind:
            return x
        whole, slices = self._host_argument(x, i), self._parts[i]
        parts = [whole[slices[d]].copy()[None] for d in r.local]  # jaxlib wants them apart
        stacked = self._stacked(parts[0].shape[1:], kind.dtype)
        return DeviceArray(kind, r.put_parts(parts, stacked))

    def _stacked(self, shape: tuple[int, ...], dtype: np.dtype) -> HostType:
        """Return the type of the devices' parts of an array together, each of this shape."""
        return shared_type((self.program.devices, *shape), dtype)


class SharedExecutable(SpmdExecutable):
    """A program on the devices of several processes, each of which passes and receives whole arrays.

    All processes have to make the same calls in the same order.
    """

    def _results(self, outs: Any) -> list[Any]:
        """Return the whole results: those that are split are gathered on every process."""
        handlers = []
        for kind, parts in zip(self._out, self._out_parts, strict=True):
            shape = np.empty(kind.shape, np.bool_)[parts[0]].shape
            handlers.append(self._runtime.parts_handler(self._stacked(shape, kind.dtype)))
        values = self._gather(client.with_handlers(outs, handlers))
        wholes = [w[0] for w in client.by_device(values)]
        client.wait_for(wholes)
        return [DeviceArray(k, w) for w, k in zip(wholes, self._out, strict=True)]

    @functools.cached_property
    def _gather(self) -> Callable[[Sequence[Any]], Any]:
        """Send the results to all devices."""
        text = gathering(self.out_avals, self._tilings, self.program.devices)
        return client.executor(self._runtime.compile(text))
