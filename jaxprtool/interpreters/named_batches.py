"""Batches along named axes: which operations act along the axis of a batch, and the types of what they take there."""

from __future__ import annotations

from jaxprtool.core.axes import NamedAxis
from jaxprtool.ir.avals import AxisGroups, ShapedArray
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Primitive, Value
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.ops.parallel import collective_names

__all__ = ["acts_along", "without_axes"]


def acts_along(axis_size: int, primitive: Primitive, params: dict[str, ParamValue]) -> bool:
    """Whether an operation without batched operands may still act along the batch's named axis."""
    if type(axis_size) is not NamedAxis:
        return False
    eqn = JaxprEqn(primitive, [], params, [])
    names = {*collective_names(eqn), *(n for c in sub_jaxprs(eqn) for n in _names_in(c))}
    return not names.isdisjoint(axis_size.axes)


def _names_in(closed: ClosedJaxpr) -> frozenset[str]:
    """Return the axis names in a jaxpr's collectives and types, nested jaxprs included."""
    found = _AXIS_NAMES.find(closed)
    if found is None:
        names: set[str] = set()
        for eqn in all_eqns(closed.jaxpr):
            names.update(collective_names(eqn))
            names.update(n for v in eqn.out_binders for n in varying_axes(v.aval))
        names.update(n for v in closed.jaxpr.in_binders for n in varying_axes(v.aval))
        found = _AXIS_NAMES.keep(closed, frozenset(names))
    return found


_AXIS_NAMES = Memo[frozenset[str]]("axis names")


def without_axes(aval: Aval, axis_size: int) -> Value:
    """Return a type without the axes that become the batch; what is to be summed along them has its parts in the batch."""
    if type(axis_size) is not NamedAxis or not isinstance(aval, ShapedArray):
        return aval
    groups, gone = aval.vary, axis_size.axes
    varying, unreduced, reduced = (
        [n for n in names if n not in gone]
        for names in (groups.varying, groups.unreduced, groups.reduced)
    )
    return aval.update(vary=AxisGroups(varying, unreduced, reduced, groups.kind))
