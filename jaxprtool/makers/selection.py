"""Gather and scatter on NumPy: which elements the windows of an index array cover."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.axes import inverse_permutation
from jaxprtool.makers.indexing import Windows

__all__ = ["Selection"]


class Selection:
    """Which elements of an operand the windows of a gather or scatter cover, for NumPy.

    The axes of the operand along which the positions of the windows differ (the moving axes) are
    merged into one axis of n places, so that the operand has the shape `around + (n,) + rest`.
    Along the other axes all windows have the same extent. A window is then a list of places.

    Attributes:
      axis: the position of the merged axis in the operand where the moving axes are adjacent, else
        None.
      within: an index that selects the part of the operand along the other axes that windows cover;
        None for all of it.
      order: the operand's axes with the moving ones first.
      n: the number of places.
      places(starts): for each index vector the places of its window, an array (*batch, *window).
      kept: the sizes of the windows along the operand's other axes.
      layout: for each axis of (*batch, *window, *kept), its axis in the windows array; None for
        axes of size 1 that it lacks. `dropped` are these axes; `to_layout` and `from_layout`
        transpose the others.
      back: the axes of (*moving, *rest) in the order of the operand.
    """

    def __init__(
        self,
        xp: Namespace,
        shape: Sequence[int],
        indices: Value,
        w: Windows,
        sizes: Sequence[int],
    ):
        self.xp, self.batch = xp, tuple(indices.shape[:-1])
        absent, own = {*w.collapsed, *w.operand_batch}, iter(w.window)
        window_axis = [None if i in absent else next(own) for i in range(len(shape))]
        moving = [
            i
            for i, n in enumerate(shape)
            if i in w.operand_batch or (i in w.start_map and sizes[i] != n)
        ]
        rest = [i for i in range(len(shape)) if i not in moving]
        part = [slice(None) if i in moving else slice(sizes[i]) for i in range(len(shape))]
        trivial = all(sizes[i] == shape[i] for i in rest)
        self.within = None if trivial else tuple(part)
        low = moving[0] if moving else 0
        side_by_side = trivial and moving == list(range(low, low + len(moving)))
        self.axis = low if side_by_side else None
        self.order = (*moving, *rest)
        self.moving_sizes = tuple(shape[i] for i in moving)
        self.kept = tuple(sizes[i] for i in rest)
        self.n = 1
        for size in self.moving_sizes:
            self.n *= size
        narrow = indices.dtype == xp.int32 and max((self.n, *shape)) < 1 << 31
        self.integer, self.unsigned = (xp.int32, xp.uint32) if narrow else (xp.int64, xp.uint64)
        self.limits = xp.array([shape[i] - sizes[i] for i in w.start_map], self.integer)
        own_windows = [i for i in moving if window_axis[i] is not None]
        self.window = tuple(sizes[i] for i in own_windows)
        self.layout = [
            *w.batch_positions(len(self.batch)),
            *(window_axis[i] for i in own_windows),
            *(window_axis[i] for i in rest),
        ]
        self.dropped = tuple([i for i, a in enumerate(self.layout) if a is None])
        self.from_layout = tuple([a for a in self.layout if a is not None])
        self.to_layout = inverse_permutation(self.from_layout)
        self.back = inverse_permutation(self.order)
        self._make_offsets(w, moving, own_windows)

    def _make_offsets(self, w: Windows, moving: list[int], own_windows: list[int]) -> None:
        """Compute the steps from one place to the next along each axis, and the offsets of places
        that do not depend on indices.
        """
        xp, rank = self.xp, len(self.batch) + len(self.window)
        step, steps = 1, {}
        for i, size in zip(reversed(moving), reversed(self.moving_sizes), strict=True):
            steps[i], step = step, step * size
        self.few = math.prod(self.batch) < 100  # a product of integers is one call, and a slow one
        self.steps = xp.array([steps.get(i, 0) for i in w.start_map], self.integer)
        self.shape = (*self.batch, *self.window)
        self.first = (*self.batch, *[1] * len(self.window))
        offsets = xp.zeros((1,) * rank, self.integer)
        axes = {i: len(self.batch) + k for k, i in enumerate(own_windows)}
        axes.update(zip(w.operand_batch, w.index_batch, strict=True))
        for i, axis in axes.items():
            size = (*self.batch, *self.window)[axis]
            line = xp.arange(size, dtype=self.integer)
            line = line.reshape([size if a == axis else 1 for a in range(rank)])
            offsets = offsets + line * steps[i]
        self.offsets = offsets

    def starts(self, indices: Value) -> Value:
        """Return the indices as i64, or as i32 where that suffices.

        Unsigned indices are clipped first; those stay outside of any operand.
        """
        if indices.dtype == self.xp.uint64:
            indices = self.xp.minimum(indices, 1 << 62)
        return indices.astype(self.integer, copy=False)

    def inside(self, starts: Value) -> Value:
        """Return for each index vector whether its window lies within the operand."""
        unsigned = self.unsigned  # as unsigned numbers, negative starts are beyond every limit
        within = starts.view(unsigned) <= self.limits.view(unsigned)
        return self.xp.logical_and.reduce(within, axis=-1)

    def clipped(self, starts: Value) -> Value:
        """Return the starts moved so that the windows lie within the operand."""
        if self.inside(starts).all():  # checked without temporary arrays of the size of the starts
            return starts
        return self.xp.maximum(self.xp.minimum(starts, self.limits), 0)

    def places(self, starts: Value) -> Value:
        """Return the places of the windows: an array (*batch, *window)."""
        if self.few:
            first = starts.dot(self.steps)
        else:
            pairs = [(starts[..., k], step) for k, step in enumerate(self.steps) if step]
            columns = [start if step == 1 else start * step for start, step in pairs]
            zeros = [] if columns else [self.xp.zeros(self.batch, self.integer)]
            first = functools.reduce(operator.add, [*columns, *zeros])
        places = self.xp.reshape(first, self.first)
        if self.offsets.size > 1:  # a single offset is 0
            places = places + self.offsets
        if places.shape == self.shape:
            return places
        return self.xp.broadcast_to(places, self.shape)

    def table(self, operand: Value) -> Value:
        """Return the operand as (n, *kept)."""
        part = operand if self.within is None else operand[self.within]
        return part.transpose(self.order).reshape((self.n, *self.kept))

    def take(self, operand: Value, places: Any) -> Value:
        """Return the elements at places: an array (*batch, *window, *kept)."""
        axis = self.axis
        if axis is None:
            return self.table(operand).take(places, axis=0)
        around, rest = self.kept[:axis], self.kept[axis:]
        rows = operand.reshape((*around, self.n, *rest)).take(places, axis=axis)
        if axis == 0:
            return rows
        end = axis + places.ndim
        return rows.transpose(*range(axis, end), *range(axis), *range(end, rows.ndim))

    def to_windows(self, rows: Value) -> Value:
        """Convert (*batch, *window, *kept) to the windows array."""
        if self.dropped:
            rows = rows.squeeze(self.dropped)
        return rows.transpose(self.to_layout)

    def from_windows(self, windows: Any) -> Value:
        """Convert the windows array to (*batch, *window, *kept)."""
        rows = windows.transpose(self.from_layout)
        return rows.reshape((*self.batch, *self.window, *self.kept))

    def with_table(self, operand: Value, table: Any) -> Value:
        """Return the operand with the covered part replaced by a table of `table`'s shape."""
        part = table.reshape((*self.moving_sizes, *self.kept))
        part = part.transpose(self.back)
        if self.within is None:
            return part
        out = operand.copy()
        out[self.within] = part
        return out
