"""The groups of members that exchange values, and batches that are split into such groups
(`Grouped`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, bound_axes
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.diagnostics import Diagnostic, MissingRuleError, UsageError, fail
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import broadcasted, full, inserted, removed, reshaped, transposed

__all__ = ["Grouped", "axis_groups", "grouped", "is_partly_mapped", "mapped", "refuse", "taken"]


# A file with a larger mesh is refused, so that reading it cannot exhaust the memory with lists of
# devices.
_MAX_MEMBERS = 1 << 16


def axis_groups(
    sizes: Mapping[str, int], names: Sequence[str], index_groups: Any = None
) -> list[list[int]]:
    """Return the groups of members that a collective combines.

    Args:
      sizes: all axes of the mesh or batch; members are numbered in row-major order.
      names: the axes of the collective, the first one slowest.
      index_groups: groups of indices along these axes, or None for one group.

    Returns:
      For each group the members, in the order of their index along the axes.

    Raises:
      UsageError: there are more members than can be listed.
    """
    strides, n = {}, 1
    for name in reversed(list(sizes)):
        strides[name], n = n, n * sizes[name]
    if n > _MAX_MEMBERS:
        message = f"a collective over {n:,} devices: at most {_MAX_MEMBERS:,} are listed"
        fail(UsageError, message, "devices")
    rest = [a for a in sizes if a not in names]

    def offsets(axes: Sequence[str]) -> list[int]:
        ranges = [range(0, strides[a] * sizes[a], strides[a]) for a in axes]
        return [sum(at) for at in itertools.product(*ranges)]

    groups = [[base + o for o in offsets(names)] for base in offsets(rest)]
    if index_groups is None:
        return groups
    return [[g[i] for i in part] for g in groups for part in index_groups]


def taken(x: Value, indices: Sequence[int | None], axis: int) -> Value:
    """Return the slices of x at fixed indices along an axis, with zeros for None.

    Runs of consecutive indices take one operation.
    """
    shape = get_aval(x).shape
    if list(indices) == list(range(shape[axis])):
        return x
    parts, i = [], 0
    while i < len(indices):
        start, n = indices[i], 1
        while i + n < len(indices) and indices[i + n] == (None if start is None else start + n):
            n += 1
        if start is None:
            zero = get_aval(x).update(shape=(*shape[:axis], n, *shape[axis + 1 :]))
            parts.append(full(zero, 0))
        else:
            low, high = [0] * len(shape), list(shape)
            low[axis], high[axis] = start, start + n
            parts.append(lax.slice(x, start_indices=tuple(low), limit_indices=tuple(high)))
        i += n
    return parts[0] if len(parts) == 1 else lax.concatenate(*parts, dimension=axis)


class Grouped:
    """The values of all members of a batch, rearranged so that the members of a group lie along one
    axis.

    Attributes:
      x: the values. Axis `at` counts the members of a group; axis 0 counts the groups when `lead`
        is 1. The other axes are those of one member's value.
      at: the axis of `x` for the members of a group.
      lead: 1 where `x` has an axis for groups; 0 where all members, in order, are one group.
      size: the number of members of a group.
      whole: whether all members, in order, are one group.
      order: the members, group by group.
    """

    def __init__(self, sizes: Mapping[str, int], names: Sequence[str], index_groups: Any):
        self.sizes, self.names, self.index_groups = sizes, names, index_groups
        self.groups = axis_groups(sizes, names, index_groups)
        self.size = len(self.groups[0])
        order = [m for g in self.groups for m in g]
        self.whole = len(self.groups) == 1 and order == list(range(len(order)))
        self.lead = 0 if self.whole else 1
        self.order = order
        self.x: Any = None
        self.at = 0

    def load(self, x: Value, dim: int | None) -> Grouped:
        """Split a batch into groups, and store it in `x`.

        A value that is not batched is repeated.
        """
        total = math.prod(self.sizes.values())
        if self.whole and dim is not None:
            self.x, self.at = x, dim
            return self
        x = materialize(x, dim, total)
        if self.whole:
            self.x, self.at = x, 0
            return self
        shape = get_aval(x).shape[1:]
        self.x = reshaped(self._ordered(x, shape), (len(self.groups), self.size, *shape))
        self.at = 1
        return self

    def _mesh_order(self) -> list[int]:
        """Return the mesh axes that the collective does not name, then those that it names."""
        axes = list(self.sizes)
        return [i for i, a in enumerate(axes) if a not in self.names] + [
            axes.index(a) for a in self.names
        ]

    def _ordered(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Reorder a batch so that members of a group are adjacent."""
        if self.index_groups is not None:
            return taken(x, self.order, 0)
        order, n = self._mesh_order(), len(self.sizes)
        split = reshaped(x, (*self.sizes.values(), *shape))
        return transposed(split, [*order, *range(n, n + len(shape))])

    def _back(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Undo `_ordered`."""
        total = len(self.order)
        if self.index_groups is not None:
            inverse = sorted(range(total), key=self.order.__getitem__)
            return taken(reshaped(x, (total, *shape)), inverse, 0)
        order, n = self._mesh_order(), len(self.sizes)
        lengths = list(self.sizes.values())
        split = reshaped(x, (*[lengths[i] for i in order], *shape))
        inverse = sorted(range(n), key=order.__getitem__)
        return reshaped(transposed(split, [*inverse, *range(n, n + len(shape))]), (total, *shape))

    def each(self, y: Value, at: int) -> tuple[Value, int]:
        """Return a batch from one result per member.

        They lie along axis `at`, after the axis of groups if there is one.
        """
        if self.whole:
            return y, at
        n = get_aval(y).ndim
        y = transposed(y, [0, at, *[i for i in range(1, n) if i != at]])
        return self._back(y, get_aval(y).shape[2:]), 0

    def shared(self, y: Value) -> tuple[Value, int | None]:
        """Return a batch from one result per group."""
        if self.whole:
            return y, None
        shape = get_aval(y).shape[1:]
        if len(self.groups) == 1:
            return reshaped(y, shape), None
        target = (len(self.groups), self.size, *shape)
        kept = (0, *range(2, len(target)))
        return self._back(broadcasted(y, target, kept), shape), 0

    def value_axes(self) -> list[int]:
        """The axes of `x` that are those of one member's value, in order."""
        return [i for i in range(self.lead, get_aval(self.x).ndim) if i != self.at]

    def split(self, axis: int) -> Value:
        """Return x with axis `axis` split in two: the part for each member, and the elements of a part."""
        shape = get_aval(self.x).shape
        return reshaped(
            self.x,
            inserted(
                (*shape[:axis], shape[axis] // self.size, *shape[axis + 1 :]), axis, self.size
            ),
        )


def is_partly_mapped(axis_size: int, names: Sequence[str]) -> bool:
    """Whether some of these axes are axes of the batch, and others are not."""
    mapped = axis_size.axes if type(axis_size) is NamedAxis else {}
    return 0 < sum(n in mapped for n in names) < len(names)


def grouped(
    name: str, axis_size: int, names: Sequence[str], index_groups: Any = None
) -> Grouped | None:
    """Return the groups of a collective along axes of a batch; None if it is along other axes only.

    Raises MissingRuleError if it is along axes of the batch and other axes together.
    """
    if type(axis_size) is not NamedAxis:
        return None
    mine = [n for n in names if n in axis_size.axes]
    if not mine:
        return None
    if len(mine) < len(names):
        refuse(name, f"it acts along {', '.join(mine)}, which is mapped, and other axes together")
    return Grouped(axis_size.axes, names, index_groups)


def mapped(
    f: Any, avals: Sequence[Aval], axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]
) -> tuple[Value, int | None]:
    """Apply a function with one result to batches of values; `avals` are the types of the batches."""
    avals = [
        a if d is None else a.update(shape=removed(a.shape, [d]))
        for a, d in zip(avals, dims, strict=True)
    ]
    with bound_axes(axis_size.axes if isinstance(axis_size, NamedAxis) else {}):
        closed = stage(lambda *xs: [f(*xs)], avals)
        batched, (dim,) = vmap_jaxpr(closed, axis_size, dims, None)
    return apply_jaxpr(batched, vals)[0], dim


def refuse(name: str, why: str) -> NoReturn:
    """Raise MissingRuleError for a collective that vmap cannot handle."""
    message = f"no batch rule for {name} here: {why}"
    raise MissingRuleError(Diagnostic(message, "no-rule"), name)
