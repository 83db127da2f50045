"""The row of `custom_vmap_call`: calls of functions with a batching rule that the user has defined.

The results of the rule depend on the size of the batch, so the rule cannot be a jaxpr. It is an
object with a method

    batched(axis_size, in_batched, avals) -> (jaxpr of the batched arguments, which results are batched)

where the batch axis of batched arguments and results is the first one. Only the process that traced
a program with `trace` has this object. For a program read from a text, the body of the function is
batched instead, with a warning. There are two exceptions: the text names the rule of
`sequential_vmap`, which is applied; and where the param `batched_by` says that the rule is known to
do something else than batch the body, batching is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import are_devices
from jaxprtool.core.partition import split_list, spread
from jaxprtool.core.trace import get_aval, inexact
from jaxprtool.interpreters.batch import materialize, moveaxis, one_by_one, vmap_jaxpr
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import fill_zeros, instantiate, jvp_jaxpr
from jaxprtool.interpreters.lost_rules import CustomRuleWarning
from jaxprtool.interpreters.partial_eval import PartialEvalTrace
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import JaxprTrace, stage
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import Opaque, ParamValue, PrintedFunction
from jaxprtool.makers.call_types import tree_call_types
from jaxprtool.makers.calls import CallRules, inline_transpose
from jaxprtool.rules.define import define

__all__ = ["is_sequential"]


def is_sequential(rule: ParamValue) -> bool:
    """Whether a rule is that of `jax.custom_batching.sequential_vmap`, which maps over examples one
    by one and is recognised in text.
    """
    return isinstance(rule, PrintedFunction) and rule.qualified == "sequential_vmap.<locals>.rule"


class _JvpRule(Opaque):
    """The batching rule of the jvp of a function with a batching rule.

    The jvp takes the arguments, then the tangents of the inexact ones. An argument and its tangent
    are both batched, or neither is.

    Attributes:
      rule: the batching rule of the function.
      inexact: for each argument whether it has a tangent.
    """

    __slots__ = ("inexact", "rule")
    rule: Any
    inexact: Sequence[bool]

    def __init__(self, rule: Any, inexact: Sequence[bool]):
        super().__init__(f"<jvp of {rule}>")
        amend(self, rule=rule, inexact=tuple(inexact))

    def __reduce__(self) -> tuple[Any, ...]:
        return _JvpRule, (self.rule, self.inexact)

    def batched(
        self, axis_size: int, in_batched: Sequence[bool], avals: Sequence[Aval]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """Batch the derivative. An argument counts as batched when it or its tangent is."""
        primals, tangents = split_list(in_batched, len(self.inexact))
        of_tangents = spread(self.inexact, tangents)
        either = [bool(p or t) for p, t in zip(primals, of_tangents, strict=True)]
        rest = iter([u for u, f in zip(either, self.inexact, strict=True) if f])
        wanted = [*either, *rest]
        given = zip(avals, in_batched, either, strict=False)
        full = [
            a.update(shape=(axis_size, *a.shape)) if w and not b else a.strong for a, b, w in given
        ]
        batched, flags = self.rule.batched(axis_size, either, full)
        transformed, _ = jvp_jaxpr(batched, self.inexact, instantiate_outs=True)

        def broadcast(*args: Value) -> list[Value]:
            given = zip(args, in_batched, wanted, strict=True)
            return apply_jaxpr(
                transformed,
                [materialize(x, None, axis_size) if w and not b else x for x, b, w in given],
            )

        tangent_flags = [b for b, a in zip(flags, inexact(batched.out_avals), strict=True) if a]
        return stage(broadcast, avals), [*flags, *tangent_flags]


def _jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    call: ClosedJaxpr,
    rule: ParamValue,
    batched_by: str,
    **_params: ParamValue,
) -> PrimalAndTangent:
    flags = inexact(call.in_avals)
    transformed, _ = jvp_jaxpr(call, flags, instantiate_outs=True)
    live = [instantiate(t) for t, f in zip(tangents, flags, strict=True) if f]
    ours = _JvpRule(rule, flags) if hasattr(rule, "batched") else rule
    if ours is rule and batched_by:  # a rule that is not in the text cannot be differentiated
        ours = None
    outs = lax.custom_vmap_call(*primals, *live, call=transformed, rule=ours, batched_by=batched_by)
    outs, out_tangents = split_list(outs, len(call.out_avals))
    return outs, fill_zeros(inexact(call.out_avals), out_tangents, call.out_avals)


_HELP = "batch the function before it is traced (jax.vmap), or declare the primitive in a plug-in (--plugin)"


def _batch(
    axis_size: int,
    vals: Value,
    dims: Any,
    *,
    call: ClosedJaxpr,
    rule: Any,
    batched_by: str = "",
    **_: Any,
) -> OutAndDim:
    if are_devices(axis_size):
        batched, out_dims = vmap_jaxpr(call, axis_size, dims, None)
        return apply_jaxpr(batched, vals, call), out_dims
    if not hasattr(rule, "batched"):
        if batched_by:
            message = f"JAX batches the primitive {batched_by} in another way than what it calls here, and its rule is not in the text"
            fail(UnsupportedError, message, "batching-rule", help=_HELP)
        if is_sequential(rule):
            return one_by_one(
                lax.closed_call.primitive, vals, dims, axis_size, {"call_jaxpr": call}
            )
        warnings.warn(
            f"the batching rule {rule} of custom_vmap_call is not in the text: its body is batched instead",
            CustomRuleWarning,
            stacklevel=2,
        )
        batched, out_dims = vmap_jaxpr(call, axis_size, dims, None)
        return apply_jaxpr(batched, vals, call), out_dims
    vals = [x if d is None else moveaxis(x, d, 0) for x, d in zip(vals, dims, strict=True)]
    flags = [d is not None for d in dims]
    batched, out_batched = rule.batched(int(axis_size), flags, [get_aval(x).strong for x in vals])
    if len(batched.out_avals) != len(call.out_avals):
        message = (
            f"the batching rule {rule} of custom_vmap_call gives {len(batched.out_avals)} results, and "
            f"the call {len(call.out_avals)}"
        )
        fail(UsageError, message, "batching-rule")
    return apply_jaxpr(batched, vals, call), [0 if b else None for b in out_batched]


def _partial_eval(
    trace: PartialEvalTrace, args: Sequence[Value], *, call: ClosedJaxpr, **params: Any
) -> Value:
    """Split the function's body.

    Record the call unsplit if nothing is known, or if its rule does something else than batch the
    body.
    """
    rule = params["rule"]
    other = params["batched_by"] and rule is not None and not isinstance(rule, _JvpRule)
    if other or trace.knows_none(args):
        primitive = lax.custom_vmap_call.primitive
        return JaxprTrace.process_primitive(trace, primitive, args, {"call": call, **params})
    return apply_jaxpr(call, args)


_COLUMNS = CallRules(lax.custom_vmap_call, "call").columns()
del _COLUMNS["saving"]  # for a policy of `remat2` the call is one operation

define(
    lax.custom_vmap_call,
    **{
        **_COLUMNS,
        "abstract_eval": tree_call_types("custom_vmap_call"),
        "jvp": _jvp,
        "transpose": lambda cts, *args, call, **_: inline_transpose(cts, args, call),
        "batch": _batch,
        "batching": "rule",
        "partial_eval": _partial_eval,
        "dce": lambda eqn, used: (eqn, [True] * len(eqn.inputs)),
    },
)
