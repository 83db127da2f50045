"""The row of `composite`: it lowers to the operation of its name; transformations apply to the jaxpr that defines it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxprtool import ops as lax
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.columns.ordering import is_ordered
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.calls import CallRules, inline_jvp, inline_transpose
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.attributes import composite_attributes

__all__: list[str] = []

# Names that StableHLO takes (spec of `composite`, as its verifier has it).
_NAMESPACED = re.compile(r"[a-zA-Z]\w*(\.[\w$]+)+", re.ASCII)


def _batch(
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    **_: ParamValue,
) -> OutAndDim:
    """Batch the jaxpr that defines it, in its place: a batched operation is not the one of that name."""
    batched, out_dims = vmap_jaxpr(jaxpr, axis_size, dims, None)
    return apply_jaxpr(batched, vals, jaxpr), out_dims


def _lower(
    ctx: LoweringContext,
    *args: HloValue,
    jaxpr: ClosedJaxpr,
    name: str,
    attributes: ParamValue,
    version: int,
) -> list[HloValue]:
    """A stablehlo.composite; a call of the jaxpr where StableHLO cannot write the name or the attributes."""
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
        "jvp": lambda primals, tangents, *, jaxpr, **_: inline_jvp(jaxpr, primals, tangents),
        "transpose": lambda cts, *args, jaxpr, **_: inline_transpose(cts, args, jaxpr),
        "batch": _batch,
        "lower": _lower,
        "partial_eval": lambda trace, args, *, jaxpr, **_: apply_jaxpr(jaxpr, args),
    },
)
