"""The row of `composite`: it is lowered to a named StableHLO operation; transformations inline its
jaxpr.
"""

from __future__ import annotations

import re

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.ordering import is_ordered
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.calls import CallRules, inline_columns
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.attributes import composite_attributes

__all__: list[str] = []

# The names that StableHLO's verifier accepts for a `composite`.
_NAMESPACED = re.compile(r"[a-zA-Z]\w*(\.[\w$]+)+", re.ASCII)


def _lower(
    ctx: LoweringContext,
    *args: HloValue,
    jaxpr: ClosedJaxpr,
    name: str,
    attributes: ParamValue,
    version: int,
) -> list[HloValue]:
    """Write a `stablehlo.composite`, or a call of the jaxpr where StableHLO cannot express the name
    or the attributes.
    """
    values = composite_attributes(attributes)
    if values is None or not _NAMESPACED.fullmatch(name) or is_ordered(jaxpr):
        return ctx.call(jaxpr, args, name)
    fields = {"name": f'"{name}"', "decomposition": f"@{ctx.function(jaxpr, name)}"}
    if values != "{}":
        fields["composite_attributes"] = values
    if version:
        fields["version"] = f"{version} : i32"
    return ctx.op("composite", *args, out=[a.physical for a in jaxpr.out_avals], **fields)


define(
    lax.composite,
    **{
        **CallRules(lax.composite).columns(),
        **inline_columns("jaxpr"),
        "lower": _lower,
        "earlier": lambda *in_avals, jaxpr, **_: lambda *xs: lax.closed_call(*xs, call_jaxpr=jaxpr),
    },
)
