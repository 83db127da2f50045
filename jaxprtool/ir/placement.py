"""Placements: the part of a type that says which mesh axes a value is split over, `f32[8@x,4@(y,z)]{U:w}`.

A placement is a part of a type that changes no value. JAX computes it by rules of each operation, with params
that it does not print; so types that differ in it alone are both accepted where a binder declares one.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxprtool.ir.avals import NO_GROUPS, AbstractType, AxisGroups, ShapedArray, Spec
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import find_spec

__all__ = ["Placement", "placed", "placement_of", "read_placement", "same_but_for_placement"]


class Placement(NamedTuple):
    """The mesh axes that a value is split over.

    Attributes:
      spec: for each dimension the axes that it is split over; () when no dimension is split.
      groups: axes over which it is still to be summed (`U:y`), or was (`R:(x,y)`).
    """

    spec: Spec = ()
    groups: AxisGroups = NO_GROUPS

    def batched(self, dim: int | None) -> Placement:
        """The placement with a new dimension that is not split."""
        if dim is None or not self.spec:
            return self
        return self._replace(spec=(*self.spec[:dim], (), *self.spec[dim:]))


_NOWHERE = Placement()


def placement_of(aval: AbstractType) -> Placement:
    """The placement in a type."""
    if not isinstance(aval, ShapedArray) or not (aval.spec or aval.vary):
        return _NOWHERE
    return Placement(aval.spec, aval.vary.replace_varying(()))


def placed(aval: AbstractType, placement: Placement) -> AbstractType:
    """The same type with another placement."""
    if not isinstance(aval, ShapedArray) or placement_of(aval) == placement:
        return aval
    vary = placement.groups.replace_varying(aval.vary.varying)
    return aval.update(spec=placement.spec, vary=vary)


def same_but_for_placement(a: AbstractType, b: AbstractType) -> bool:
    """Whether types differ in their placements and weak types at most."""
    a, b = a.strong, b.strong
    if a is b or not (a.annotated or b.annotated):
        return a is b
    return placed(a, _NOWHERE) is placed(b, _NOWHERE)


def read_placement(value: ParamValue, ndim: int) -> Placement | None:
    """The placement that a param `dst_sharding` holds, or None when it cannot be read."""
    if isinstance(value, Placement):
        return value
    spec = find_spec(value)
    if spec is None:
        return None
    return Placement((*spec, *((),) * (ndim - len(spec))) if any(spec) else ())
