"""What the params of `shard_map` say: which axes are mapped over, and how values are split along them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager

from jaxprtool.core.axes import AxisEnv, bound_axes, current_axes
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import NO_GROUPS, AxisGroups, Spec
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import (
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

__all__ = ["Layout"]


class Layout:
    """The params of a shard_map, read.

    Attributes:
      mesh: the mesh.
      names: the axes that the body is mapped over, in the order of the mesh.
      in_specs, out_specs: how operands and results are split.
      in_sums, out_sums: the axes along which they are parts of a sum (`unreduced`), or are the same and were summed.
      tracked: whether types in the body say along which axes values vary.
    """

    def __init__(self, params: dict[str, ParamValue]):
        try:
            self.mesh = known_mesh(params["mesh"])
            self.in_specs = specs_of(params["in_specs"])
            self.out_specs = specs_of(params["out_specs"])
            self.in_sums = sums_of(params["in_specs"])
            self.out_sums = sums_of(params["out_specs"])
        except ValueError as e:
            ill_typed(f"shard_map: {e}", "bad-param")
        self.names = mesh_axes(params["newly_manual_axes"], self.mesh)
        self.tracked = bool(params["check_vma"])
        pairs = zip((*self.in_specs, *self.out_specs), (*self.in_sums, *self.out_sums), strict=True)
        for spec, sums in pairs:
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

    @classmethod
    def without_sums(cls, params: dict[str, ParamValue], what: str) -> Layout:
        """The layout, where its specs say nothing of sums to come, which `what` does not know."""
        found = cls(params)
        if found.has_sums:
            message = (
                f"shard_map whose specs say what is still to be summed, or was: no {what} rule"
            )
            fail(
                UnsupportedError,
                message,
                "no-rule",
                help="inside of it jax.lax.pcast says the same, and psum ends it",
            )
        return found

    @property
    def has_sums(self) -> bool:
        """Whether a spec says `unreduced` or `reduced`."""
        return any((*self.in_sums, *self.out_sums))

    @property
    def sizes(self) -> dict[str, int]:
        """The axes that the body is mapped over, with their sizes."""
        return {n: self.mesh.sizes[n] for n in self.names}

    def scope(self) -> AbstractContextManager[AxisEnv]:
        """The body's axis names, bound inside a `with` block."""
        return bound_axes(self.sizes, self.tracked)

    def unmentioned(self, spec: Spec) -> tuple[str, ...]:
        """The axes that a spec leaves out."""
        found = mentioned(spec)
        return tuple(n for n in self.names if n not in found)

    def count(self, names: Iterable[str]) -> int:
        """The number of devices along these axes."""
        return math.prod(self.mesh.sizes[n] for n in names)

    def shard(self, aval: Aval, spec: Spec, sums: AxisGroups = NO_GROUPS) -> Value:
        """The type of a shard of a value. Raises ValueError when the spec does not fit."""
        local = aval.update(shape=shard_shape(aval.shape, spec, self.mesh), spec=())
        if sums or local.vary.unreduced or local.vary.reduced:
            local = local.update(vary=sums.replace_varying(local.vary.varying))
        if not self.tracked:
            return local
        order = [*current_axes().sizes, *self.names]
        return with_varying(local, [*varying_axes(aval), *sorted(mentioned(spec))], order)

    def unshard(self, aval: Aval, spec: Spec, sums: AxisGroups = NO_GROUPS) -> Value:
        """The type of the whole of which this is the type of a shard. Raises ValueError likewise."""
        shape = unshard_shape(aval.shape, spec, self.mesh)
        outer = [n for n in varying_axes(aval) if n not in self.names]
        shown = (*spec, *((),) * (len(shape) - len(spec)))
        explicit = bool(mentioned(spec) & self.mesh.explicit)
        whole = aval.update(shape=shape, weak_type=False, spec=shown if explicit else ())
        if sums:
            whole = whole.update(vary=sums.replace_varying(whole.vary.varying))
        return with_varying(whole, outer)

    def residual(self, aval: Aval) -> Spec:
        """How to hand a value of the body from one shard_map to another: every shard, side by side."""
        names = self.names
        if self.tracked:
            varying = varying_axes(aval)
            names = tuple(n for n in names if n in varying)
        return (names,) if names else ()


def with_specs(
    params: dict[str, ParamValue], jaxpr: ClosedJaxpr, ins: Iterable[Spec], outs: Iterable[Spec]
) -> dict:
    """Params of a shard_map with another body and other specs."""
    return {
        **params,
        "jaxpr": jaxpr,
        "in_specs": partition_specs(ins),
        "out_specs": partition_specs(outs),
    }
