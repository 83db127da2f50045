"""Arrays spread over the devices of a program that runs on several: split on the way in, joined on the way out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.xla.client import Tiling
from jaxprtool.backends.xla.host_types import HostType
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.stablehlo.text import mlir_type

__all__ = ["Shards", "gathering", "joined_type", "shard_slices"]

Slices = tuple[slice, ...]


class Shards(list):
    """The buffers of the devices that together hold an array."""

    def block_until_ready(self) -> None:
        """Wait until all of them are computed."""
        for buffer in self:
            buffer.block_until_ready()


def shard_slices(tiling: Tiling | str | None, shape: tuple[int, ...], devices: int) -> list[Slices]:
    """Return which part of an array each device holds.

    Args:
      tiling: how XLA splits it.
      shape: the shape of the whole array.
      devices: the number of devices.

    Raises:
      UnsupportedError: a sharding that is neither replication nor a tiling.
    """
    everything = (slice(None),) * len(shape)
    if tiling is None or devices == 1:
        return [everything] * devices
    if isinstance(tiling, str):
        fail(UnsupportedError, f"XLA lays an array out in a way unknown here: {tiling}", "sharding")
    parts: list[Slices] = [everything] * devices
    for device, place in zip(
        tiling.devices, itertools.product(*map(range, tiling.sizes)), strict=True
    ):
        cut = []
        for n, count, i in zip(shape, tiling.sizes, place, strict=False):
            size = -(-n // count)
            cut.append(slice(min(i * size, n), min((i + 1) * size, n)))
        parts[device] = tuple(cut)
    return parts


def joined_type(
    kind: HostType, reader: Callable[..., Callable[..., np.ndarray]], parts: Sequence[Slices]
) -> HostType:
    """Return the type of a result whose buffer is the list of the devices' buffers.

    Args:
      kind: the type of the whole.
      reader: returns the reader of the buffer of one device, given the shape and the dtype of the
        part.
      parts: the part that each device holds; of equal parts the first is read.
    """
    first: dict[Any, int] = {}
    for device, part in enumerate(parts):
        first.setdefault(tuple((s.start, s.stop) for s in part), device)

    def join(buffers: Shards) -> np.ndarray:
        whole = np.empty(kind.shape, kind.dtype)
        for device in first.values():
            target = whole[(*parts[device], ...)]
            target[...] = reader(target.shape, kind.dtype)(buffers[device])
        return whole

    return HostType(kind.shape, kind.dtype, join)


def gathering(avals: Sequence[Any], tilings: Sequence[Tiling | None], devices: int) -> str:
    """Return a StableHLO module that gives each device the whole of arrays that are split over all of them.

    Args:
      avals: the types of the arrays.
      tilings: how XLA splits them.
      devices: the number of devices.
    """
    meshes = [f'sdy.mesh @all = <["all"={devices}]>']
    types, ins, outs = [], [], []
    for i, (aval, tiling) in enumerate(zip(avals, tilings, strict=True)):
        kind, rank = mlir_type(aval.physical), len(aval.physical.shape)
        split = _laid_out("all", ["{}"] * rank)
        outs.append(f"{kind} {split}")
        if tiling is not None:
            meshes.append(_mesh_text(f"m{i}", tiling))
            split = _laid_out(f"m{i}", [f'{{"d{k}"}}' for k in range(rank)])
        ins.append(f"%a{i}: {kind} {split}")
        types.append(kind)
    values = ", ".join(f"%a{i}" for i in range(len(types)))
    returned = f"return {values} : {', '.join(types)}" if types else "return"
    main = f"func.func public @main({', '.join(ins)}) -> ({', '.join(outs)}) {{ {returned} }}"
    return "\n  ".join(["module @gather {", *meshes, main]) + "\n}\n"


def _laid_out(mesh: str, dims: Sequence[str]) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@{mesh}, [{', '.join(dims)}]>}}"


def _mesh_text(symbol: str, tiling: Tiling) -> str:
    """Return a mesh that has an axis for each dimension of a tiling, and one along which tiles are repeated."""
    axes = [f'"d{k}"={n}' for k, n in enumerate(tiling.sizes)]
    devices = list(tiling.devices)
    order = "" if devices == sorted(devices) else f", device_ids={devices}"
    return f"sdy.mesh @{symbol} = <[{', '.join(axes)}]{order}>"
