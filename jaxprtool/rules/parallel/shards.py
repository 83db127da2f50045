"""Splitting NumPy arrays into shards, and joining shards to arrays."""

from __future__ import annotations

import math

from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.ir.jaxpr import Value
from jaxprtool.rules.parallel.shard_layout import Split

__all__ = ["join_shards", "split_shards"]


def split_shards(xp: Namespace, x: Value, split: Split, sizes: dict[str, int]) -> Value:
    """Return the shards of an array, stacked along a new first axis in the order of the devices.

    For an unreduced sum, the first shard along the axis is the whole value and the others are
    zeros; for an unreduced maximum or minimum, all shards are the whole value.
    """
    spec, sums = split
    if isinstance(x, xp.KeyArray):
        return xp.KeyArray(x.impl, split_shards(xp, x.data, Split(spec), sizes))
    shape, places = [], {}
    for i, n in enumerate(x.shape):
        for a in spec[i] if i < len(spec) else ():
            places[a] = len(shape)
            shape.append(sizes[a])
            n //= sizes[a]
        shape.append(n)
    order = [places[a] for a in sizes if a in places]
    local = [i for i in range(len(shape)) if i not in order]
    y = xp.reshape(x, shape).transpose([*order, *local])
    rest = y.shape[len(order) :]
    y = y.reshape([*[sizes[a] if a in places else 1 for a in sizes], *rest])
    y = xp.broadcast_to(y, (*sizes.values(), *rest))
    for i, a in enumerate(sizes):
        if a in sums.unreduced and not sums.kind:
            first = xp.arange(sizes[a]).reshape([-1 if j == i else 1 for j in range(y.ndim)]) == 0
            y = xp.where(first, y, xp.zeros((), y.dtype))
    return y.reshape((math.prod(sizes.values()), *rest))


def join_shards(
    xp: Namespace,
    y: Value,
    dim: int | None,
    split: Split,
    sizes: dict[str, int],
) -> Value:
    """Return the whole array from the devices' results, which lie along axis `dim` (None: all are equal).

    Along axes that the split leaves out, the first device's result is taken; unreduced shards are
    combined by their sum, maximum or minimum.
    """
    spec, sums = split
    parts = sums.unreduced
    if dim is None and parts:
        n = math.prod(sizes.values())
        y, dim = xp.broadcast_to(y, (n, *y.shape)), 0
    if isinstance(y, xp.KeyArray):
        return xp.KeyArray(y.impl, join_shards(xp, y.data, dim, Split(spec), sizes))
    used = [a for axes in spec for a in axes]
    if dim is None:
        repeats = [1] * y.ndim
        for i, axes in enumerate(spec):
            for a in axes:
                repeats[i] *= sizes[a]
        return xp.tile(y, repeats) if used else y
    y = xp.moveaxis(y, dim, 0)
    local = y.shape[1:]
    y = y.reshape((*sizes.values(), *local))
    if parts:
        along = tuple(i for i, a in enumerate(sizes) if a in parts)
        if sums.kind:
            y = (xp.max if sums.kind == "max" else xp.min)(y, axis=along, keepdims=True)
        else:
            y = xp.sum(y, axis=along, keepdims=True, dtype=y.dtype)
    y = y[tuple(slice(None) if a in used else 0 for a in sizes)]
    kept = [a for a in sizes if a in used]
    order, shape = [], []
    for i, n in enumerate(local):
        axes = spec[i] if i < len(spec) else ()
        order += [*[kept.index(a) for a in axes], len(kept) + i]
        for a in axes:
            n *= sizes[a]
        shape.append(n)
    return xp.asarray(y).transpose(order).reshape(shape)
