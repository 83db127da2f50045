"""The params of `shard_map` in a form for rules: the mesh axes that it maps over (`Layout`), and
how values are split along them (`Split`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from jaxprtool.core.axes import AxisEnv, bound_axes, current_axes
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import NO_GROUPS, AxisGroups, Spec
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import (
    batch_spec,
    known_mesh,
    mentioned,
    mesh_axes,
    partition_specs,
    shard_shape,
    specs_of,
    sums_of,
    unshard_shape,
    varying_axes,
    with_varying,
)

__all__ = ["Layout", "Split", "with_specs"]


class Split(NamedTuple):
    """How a value is split over a mesh.

    Attributes:
      spec: for each dimension, the mesh axes over which it is split.
      sums: the mesh axes over which it is unreduced (its shards are the terms of a sum), and those
        over which it is reduced (the shards are equal, and cotangents are unreduced).
    """

    spec: Spec
    sums: AxisGroups = NO_GROUPS

    @property
    def dual(self) -> Split:
        """The split of a cotangent of such a value."""
        return Split(self.spec, self.sums.dual)

    @property
    def differs(self) -> bool:
        """Whether shards differ from device to device."""
        return any(self.spec) or bool(self.sums.unreduced)

    @property
    def axes(self) -> frozenset[str]:
        """The axes along which shards differ."""
        return mentioned(self.spec).union(self.sums.unreduced)

    def batched(self, dim: int | None) -> Split:
        """Return the split of the value with a new dimension."""
        return Split(batch_spec(self.spec, dim), self.sums)


class Layout:
    """The params of a shard_map, checked and in a form for rules.

    Attributes:
      mesh: the mesh.
      names: the axes that the body is mapped over, in the order of the mesh.
      ins: how each operand is split.
      outs: how each result is split.
      tracked: whether types in the body say along which axes values vary.
    """

    def __init__(self, params: dict[str, ParamValue]):
        try:
            self.mesh = known_mesh(params["mesh"])
            self.ins, self.outs = _splits(params["in_specs"]), _splits(params["out_specs"])
        except ValueError as e:
            ill_typed(f"shard_map: {e}", "bad-param")
        self.names = mesh_axes(params["newly_manual_axes"], self.mesh)
        self.tracked = bool(params["check_vma"])
        for spec, sums in (*self.ins, *self.outs):
            if sum(map(len, spec)) > len(mentioned(spec)):
                (text,) = partition_specs([spec])
                ill_typed(f"shard_map: {text} splits several dimensions over one axis", "spec")
            for n in sorted(mentioned(spec).union(sums.unreduced, sums.reduced)):
                if n not in self.names:
                    known = ", ".join(self.names) or "none"
                    ill_typed(
                        f"shard_map: a spec mentions the axis {n}, which is not mapped over "
                        f"(mapped: {known})",
                        "unbound-axis",
                    )

    @property
    def sizes(self) -> dict[str, int]:
        """The axes that the body is mapped over, with their sizes."""
        return {n: self.mesh.sizes[n] for n in self.names}

    def scope(self) -> AbstractContextManager[AxisEnv]:
        """Bind the body's axis names inside a `with` block."""
        return bound_axes(self.sizes, self.tracked)

    def unmentioned(self, split: Split) -> tuple[str, ...]:
        """Return the axes along which the shards of a split are all equal."""
        return tuple(n for n in self.names if n not in split.axes)

    def count(self, names: Iterable[str]) -> int:
        """Return the number of devices along these axes."""
        return math.prod(self.mesh.sizes[n] for n in names)

    def shard(self, aval: Aval, split: Split) -> Value:
        """Return the type of one shard of a value of this type.

        Raises ValueError if the spec does not fit.
        """
        spec, sums = split
        local = aval.update(shape=shard_shape(aval.shape, spec, self.mesh), spec=())
        if sums or local.vary.unreduced or local.vary.reduced:
            local = local.update(vary=sums.replace_varying(local.vary.varying))
        if not self.tracked:
            return local
        order = [*current_axes().sizes, *self.names]
        return with_varying(local, [*varying_axes(aval), *sorted(mentioned(spec))], order)

    def unshard(self, aval: Aval, split: Split) -> Value:
        """Return the type of the whole value, given that of a shard.

        Raises ValueError if the spec does not fit.
        """
        spec, sums = split
        shape = unshard_shape(aval.shape, spec, self.mesh)
        outer = [n for n in varying_axes(aval) if n not in self.names]
        shown = (*spec, *((),) * (len(shape) - len(spec)))
        explicit = bool(mentioned(spec) & self.mesh.explicit)
        whole = aval.update(shape=shape, weak_type=False, spec=shown if explicit else ())
        if sums or aval.vary.unreduced or aval.vary.reduced:
            whole = whole.update(vary=sums.replace_varying(whole.vary.varying))
        return with_varying(whole, outer)

    def residual(self, aval: Aval) -> Split:
        """Return the split that passes a value of the body from one shard_map to another, as a
        residual.

        The whole value is the concatenation of all shards along its first dimension.
        """
        names = self.names
        if self.tracked:
            varying = varying_axes(aval)
            names = tuple(n for n in names if n in varying)
        return Split((names,) if names else (), aval.vary.replace_varying(()))


def _splits(specs: ParamValue) -> list[Split]:
    """Return the splits in a param `in_specs` or `out_specs`.

    Raises ValueError when it is no tuple of specs.
    """
    return list(map(Split, specs_of(specs), sums_of(specs)))


def with_specs(
    params: dict[str, ParamValue], jaxpr: ClosedJaxpr, ins: Iterable[Split], outs: Iterable[Split]
) -> dict:
    """Return the params of a shard_map with another body and other specs."""
    ins, outs = list(ins), list(outs)
    return {
        **params,
        "jaxpr": jaxpr,
        "in_specs": partition_specs([s.spec for s in ins], [s.sums for s in ins]),
        "out_specs": partition_specs([s.spec for s in outs], [s.sums for s in outs]),
    }
