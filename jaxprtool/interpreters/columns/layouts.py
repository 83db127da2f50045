"""Layouts of the results of operations on a mesh, where types have them (`f32[8@x,4]`).

Contract of a `layout` rule:

    rule(in_avals, out_aval, **params) -> spec      (a sequence, see `Placement.spec`)

An operation without one takes the layout of the first operand that has the result's shape and a layout.

Makers: `reduced_layout`; `spec_of` helps others.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.avals import Spec
from jaxprtool.ir.jaxpr import Aval, Primitive, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import Placement, placed, placement_of

__all__ = ["laid_out", "layout_rules", "reduced_layout", "spec_of"]

layout_rules = RuleTable("layout")


def laid_out(
    primitive: Primitive, in_avals: Sequence[Aval], out_aval: Aval, params: dict[str, ParamValue]
) -> Value:
    """The type of a result, with its layout."""
    rule = layout_rules.find(primitive)
    if rule is not None:
        spec = tuple(rule(in_avals, out_aval, **params))
        return placed(out_aval, Placement(spec if any(spec) else ()))
    shape = getattr(out_aval, "shape", None)
    for a in in_avals:
        if getattr(a, "shape", ...) == shape and any(placement_of(a)):
            return placed(out_aval, placement_of(a))
    return out_aval


def spec_of(aval: Aval) -> Spec:
    """The layout of an operand; one that has none counts as one whose dimensions are not split."""
    return aval.spec or ((),) * aval.ndim


def reduced_layout(
    ins: Sequence[Value], out: Value, *, axes: Sequence[int], **_: ParamValue
) -> list[tuple[str, ...]]:
    """The layout of the operand, without the dimensions that are reduced."""
    return [s for i, s in enumerate(spec_of(ins[0])) if i not in axes]
