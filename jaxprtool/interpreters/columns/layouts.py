"""Compute the layouts of the results of operations on a mesh, for types that have layouts (`f32[8@x,4]`).

Contract of a `layout` rule:

    rule(in_avals, out_aval, **params) -> spec      (a sequence, see `Placement.spec`)

An operation without a rule takes the layout of the first operand that has the result's shape and a
layout. Axes that are unreduced or reduced in some operand are so in the result.

Makers: `reduced_layout`; `spec_of` helps others.

The fact `sums` says whether operands may be unreduced (`{U:x}`: still to be summed along axis x), as in JAX:

  "refused"              none may be: the operation is not linear, or JAX has no rule for it.
  "kept"                 any may be: the operation is linear.
  "max", "min"           an operand may be one whose maximum or minimum is still to be taken.
  "together"             all operands have to be unreduced along the same axes.
  "product", "quotient"  one operand may be, if the other was summed along the same axes; a divisor may not.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.core.rule_table import FactTable, RuleTable
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.ir.avals import NO_GROUPS, AxisGroups, Spec
from jaxprtool.ir.jaxpr import Aval, Primitive, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import Placement, placed, placement_of
from jaxprtool.ir.sharding import varying_axes

__all__ = ["fault_of_sums", "laid_out", "layout_rules", "reduced_layout", "spec_of", "sums_facts"]

layout_rules = RuleTable("layout")
sums_facts = FactTable("sums", "refused", "kept", "max", "min", "together", "product", "quotient")


def fault_of_sums(primitive: Primitive, in_avals: Sequence[Aval]) -> str:
    """Return what is wrong with unreduced operands, by the fact `sums` of the operation; "" where nothing is."""
    groups = [placement_of(a).groups for a in in_avals]
    sums = [set(g.unreduced) if g else set() for g in groups]
    summed = [set(g.reduced) if g else set() for g in groups]
    k = next((i for i, axes in enumerate(sums) if axes), None)
    fact = sums_facts[primitive]
    if k is None or fact == "kept" or elements_facts[primitive] == "kept":
        return ""
    given = f"{primitive}: {in_avals[k]} is still to be summed along {', '.join(sorted(sums[k]))}"
    if fact in ("refused", "max", "min"):
        of_kind = fact == getattr(groups[k], "kind", "")
        return "" if of_kind else f"{given}, and it takes no such operand"
    if fact == "together":
        return "" if all(s == sums[k] for s in sums) else f"{given}, and the other operand is not"
    if fact == "quotient" and k == 1:
        return f"{given}, and is what is divided by"
    if any(sums[1 - k : 2 - k]) or summed[1 - k] != sums[k]:
        return f"{given}, and the other operand has to be one that was"
    return ""


def laid_out(
    primitive: Primitive, in_avals: Sequence[Aval], out_aval: Aval, params: dict[str, ParamValue]
) -> Value:
    """Return the type of a result, with its layout."""
    groups = _groups(in_avals)
    rule = layout_rules.find(primitive)
    if rule is not None:
        spec = tuple(rule(in_avals, out_aval, **params))
        return placed(out_aval, Placement(spec if any(spec) else (), groups))
    shape = getattr(out_aval, "shape", None)
    for a in in_avals:
        if getattr(a, "shape", ...) == shape and any(placement_of(a)):
            return placed(out_aval, Placement(placement_of(a).spec, groups))
    return placed(out_aval, Placement((), groups)) if groups else out_aval


def _groups(in_avals: Sequence[Aval]) -> AxisGroups:
    """Return the unreduced and the reduced axes of a result: those of all operands.

    Axes along which an operand varies are left out, and unreduced axes are not reduced ones.
    """
    found = [g for a in in_avals if (g := placement_of(a).groups)]
    if not found:
        return NO_GROUPS
    unreduced = dict.fromkeys(n for g in found for n in g.unreduced)
    varying = {n for a in in_avals for n in varying_axes(a)}
    reduced = dict.fromkeys(n for g in found for n in g.reduced)
    kind = max(g.kind for g in found)
    rest = [n for n in reduced if n not in unreduced and n not in varying]
    return AxisGroups((), [n for n in unreduced if n not in varying], rest, kind)


def spec_of(aval: Aval) -> Spec:
    """Return the layout of an operand; one without a layout counts as not split in any dimension."""
    return aval.spec or ((),) * aval.ndim


def reduced_layout(
    ins: Sequence[Value], out: Value, *, axes: Sequence[int], **_: ParamValue
) -> list[tuple[str, ...]]:
    """The `layout` rule of a reduction: the layout of the operand without the dimensions that are reduced."""
    return [s for i, s in enumerate(spec_of(ins[0])) if i not in axes]
