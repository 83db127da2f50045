"""Placements: the part of a type that says which mesh axes a value is split over, `f32[8@x,4@(y,z)]{U:w}`.

A placement does not affect values. JAX computes it with a rule for each operation, from params that
it does not print. So where a binder declares a type, types that differ only in their placement are
accepted.
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
      groups: the unreduced axes (`U:y`), over which the value is still to be summed, and the
        reduced ones (`R:(x,y)`).
    """

    spec: Spec = ()
    groups: AxisGroups = NO_GROUPS

    def batched(self, dim: int | None) -> Placement:
        """Return the placement with a new dimension `dim` that is not split; None adds none."""
        if dim is None or not self.spec:
            return self
        return self._replace(spec=(*self.spec[:dim], (), *self.spec[dim:]))


_NOWHERE = Placement()


def placement_of(aval: AbstractType) -> Placement:
    """Return the placement in a type."""
    if not isinstance(aval, ShapedArray) or not (aval.spec or aval.vary):
        return _NOWHERE
    return Placement(aval.spec, aval.vary.replace_varying(()))


def placed(aval: AbstractType, placement: Placement) -> AbstractType:
    """Return the same type with another placement."""
    if not isinstance(aval, ShapedArray) or placement_of(aval) == placement:
        return aval
    vary = placement.groups.replace_varying(aval.vary.varying)
    return aval.update(spec=placement.spec, vary=vary)


def same_but_for_placement(a: AbstractType, b: AbstractType) -> bool:
    """Whether two types are equal apart from placement and weak type."""
    a, b = a.strong, b.strong
    if a is b or not (a.annotated or b.annotated):
        return a is b
    return placed(a, _NOWHERE) is placed(b, _NOWHERE)


def read_placement(value: ParamValue, ndim: int) -> Placement | None:
    """Return the placement that a param `dst_sharding` holds for an array of `ndim` dimensions;
    None where it cannot be read.
    """
    if isinstance(value, Placement):
        return value
    spec = find_spec(value)
    if spec is None:
        return None
    return Placement((*spec, *((),) * (ndim - len(spec))) if any(spec) else ())
