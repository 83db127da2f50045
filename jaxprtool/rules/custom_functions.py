"""Rows of calls with derivatives that the user has defined: `custom_jvp_call`, `custom_vjp_call`,
and `custom_lin`, the linear part of the latter.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.core.trace import inexact, is_inexact
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.columns.runs import call_of
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE, cost_jaxpr
from jaxprtool.interpreters.dce import dce_body
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate
from jaxprtool.interpreters.lost_rules import (
    KEEPS_RULES,
    CustomRuleWarning,
    differentiated_without_rule,
    lost_rule,
)
from jaxprtool.interpreters.partial_eval import PartialEvalTrace
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage_shared
from jaxprtool.interpreters.transpose import UndefPrimal
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import LostRule
from jaxprtool.makers.call_types import custom_jvp_types, custom_lin_types, custom_vjp_types
from jaxprtool.makers.calls import CallImpl, inline_jvp, inline_transpose
from jaxprtool.rules.define import define
from jaxprtool.rules.jax_functions import known_function

# -- custom_jvp_call ---------------------------------------------------------------------------


def _jvp_of_body(
    kind: str, rule: str, primals: Value, tangents: Value, params: dict[str, Any]
) -> PrimalAndTangent:
    """Differentiate the body of a function whose custom rule is not in the text, with a warning."""
    lost = lost_rule(kind, rule, params["name"])
    warnings.warn(
        f"{lost.said}: its body is differentiated instead", CustomRuleWarning, stacklevel=2
    )
    call: ClosedJaxpr = params["call_jaxpr"]
    with differentiated_without_rule(call, lost):
        return inline_jvp(call, primals, tangents)


def _of_arguments(tangents: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return the tangents of a custom call with zeros for its constants, which are not
    differentiated, with or without a rule.
    """
    n, call = params["num_consts"], params["call_jaxpr"]
    return [*map(Zero, call.in_avals[:n]), *tangents[n:]]


def _custom_jvp_jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    call: ClosedJaxpr = params["call_jaxpr"]
    tangents = _of_arguments(tangents, params)
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    if rule is None:
        known = known_function(params)
        if known is None:
            return _jvp_of_body("jvp", params["jvp"], primals, tangents, params)
        lost = lost_rule("jvp", params["jvp"], params["name"])
        said = f"{lost.said}: that of {known.where} is taken"
        warnings.warn(said, CustomRuleWarning, stacklevel=2)
        rule = known.jaxpr(params)
    flags = inexact(call.in_avals)
    live = [instantiate(t) for t, flag in zip(tangents, flags, strict=True) if flag]
    outs, out_tangents = split_list(apply_jaxpr(rule, [*primals, *live]), len(call.out_avals))
    return outs, fill_zeros(inexact(call.out_avals), out_tangents, call.out_avals)


def _custom_jvp_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    call: ClosedJaxpr = params["call_jaxpr"]
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    # Results keep their batch axes; a tangent has the axis of its primal.
    out_dims = [d or 0 for d in vmap_jaxpr(call, axis_size, dims, None)[1]]
    batched, _ = vmap_jaxpr(call, axis_size, dims, out_dims)
    fields = {**params, "call_jaxpr": batched}
    if rule is not None:
        tangent_dims = [d for d, f in zip(dims, inexact(call.in_avals), strict=True) if f]
        tangents_out = [d for d, f in zip(out_dims, inexact(call.out_avals), strict=True) if f]
        wanted = [*out_dims, *tangents_out]
        try:
            fields["jvp_jaxpr"] = vmap_jaxpr(rule, axis_size, [*dims, *tangent_dims], wanted)[0]
        except UnsupportedError as e:
            fields |= {"jvp_jaxpr": None, "jvp": _not_mapped(params["jvp"], e)}
    return lax.custom_jvp_call(*vals, **fields), out_dims


def _not_mapped(name: str, error: UnsupportedError) -> LostRule:
    """Return the name of a derivative rule that cannot be mapped.

    The function itself can, so that only its derivative is without the rule, as in JAX, which maps
    a rule when the derivative is taken.
    """
    return LostRule(str(name), f"it cannot be mapped: {error.diagnostics[0].message}")


def _custom_jvp_dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Remove the results that are not used, and their tangents.

    All operands stay, because the derivative rule takes them all.
    """
    params, kept = eqn.params, [True] * len(eqn.inputs)
    call: ClosedJaxpr = params["call_jaxpr"]
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    live = _live(call, used_outs)
    if live is call:
        return eqn, kept
    fields = {**params, "call_jaxpr": live}
    if rule is not None:
        flags = inexact(call.out_avals)
        tangents = [u for u, f in zip(used_outs, flags, strict=True) if f]
        fields["jvp_jaxpr"] = _live(rule, [*used_outs, *tangents])
    outs = [v for v, u in zip(eqn.out_binders, used_outs, strict=True) if u]
    return eqn.replace(params=fields, out_binders=outs), kept


def _live(closed: ClosedJaxpr, used_outs: Sequence[bool]) -> ClosedJaxpr:
    jaxpr, _ = dce_body(closed, used_outs)
    if jaxpr is closed.jaxpr:
        return closed
    return _LIVE.of(closed, tuple(used_outs), lambda: ClosedJaxpr(jaxpr, closed.consts))


_LIVE = MemoTable[ClosedJaxpr]("live")


@Maker
def _custom_partial_eval(op: Any) -> Value:
    """Return the partial_eval rule of a custom call: record it whole if nothing but literals is
    known, otherwise split its body.
    """

    def rule(trace: PartialEvalTrace, args: Sequence[Any], **params: Any) -> list[Any]:
        if trace.knows_none(args):
            atoms = trace.atoms(args)
            return trace.emit(op.primitive, atoms, params, params["call_jaxpr"].out_avals)
        return apply_jaxpr(params["call_jaxpr"], args)

    return rule


# The columns in which calls with custom derivatives are like their bodies.
_CUSTOM = {
    "impl": CallImpl("call_jaxpr"),
    "transpose": lambda cts, *args, call_jaxpr, **_: inline_transpose(cts, args, call_jaxpr),
    "lower": lambda ctx, *args, call_jaxpr, **_: ctx.inline(call_jaxpr, args),
    "cost": lambda ins, outs, *, call_jaxpr, **_: cost_jaxpr(call_jaxpr),
    "runs": call_of("call_jaxpr"),
    "partial_eval": _custom_partial_eval,
    "derivative": "rule",
}

define(
    lax.custom_jvp_call,
    **_CUSTOM,
    abstract_eval=custom_jvp_types,
    jvp=_custom_jvp_jvp,
    batch=_custom_jvp_batch,
    dce=_custom_jvp_dce,
)


# -- custom_vjp_call ---------------------------------------------------------------------------


def _custom_vjp_jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    call: ClosedJaxpr = params["call_jaxpr"]
    tangents = _of_arguments(tangents, params)
    fwd: ClosedJaxpr | None = params["fwd_jaxpr"]
    if fwd is None or params["bwd_jaxpr"] is None:
        return _jvp_of_body("vjp", params["bwd"], primals, tangents, params)
    n_res = len(fwd.out_avals) - len(call.out_avals)
    residuals, outs = split_list(apply_jaxpr(fwd, primals), n_res)
    zeros = [type(t) is Zero for t in tangents]
    wanted = [not z for z, f in zip(zeros, inexact(call.in_avals), strict=True) if f]
    out_avals = tuple(a.strong for a in call.out_avals if is_inexact(a))
    out_tangents = lax.custom_lin(
        *residuals,
        *[t for t in tangents if type(t) is not Zero],
        num_res=n_res,
        bwd_jaxpr=_live(params["bwd_jaxpr"], wanted),
        bwd=params["bwd"],
        in_zeros=zeros,
        out_avals=out_avals,
        symbolic_zeros=params["symbolic_zeros"],
    )
    return outs, fill_zeros(inexact(call.out_avals), out_tangents, call.out_avals)


def _custom_vjp_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    call: ClosedJaxpr = params["call_jaxpr"]
    fwd, bwd = params["fwd_jaxpr"], params["bwd_jaxpr"]
    out_dims = [d or 0 for d in vmap_jaxpr(call, axis_size, dims, None)[1]]
    batched, _ = vmap_jaxpr(call, axis_size, dims, out_dims)
    fields = {**params, "call_jaxpr": batched}
    if fwd is not None and bwd is not None:
        try:
            fields["fwd_jaxpr"], fields["bwd_jaxpr"] = _batched_vjp(
                axis_size, call, fwd, bwd, dims, out_dims
            )
        except UnsupportedError as e:
            fields |= {"fwd_jaxpr": None, "bwd_jaxpr": None, "bwd": _not_mapped(params["bwd"], e)}
    return lax.custom_vjp_call(*vals, **fields), out_dims


def _batched_vjp(
    axis_size: int,
    call: ClosedJaxpr,
    fwd: ClosedJaxpr,
    bwd: ClosedJaxpr,
    dims: Sequence[int | None],
    out_dims: Sequence[int],
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Return the rules of a custom vjp for a batch; raise UnsupportedError where one cannot be mapped."""
    n_res = len(fwd.out_avals) - len(out_dims)
    fwd, fwd_dims = vmap_jaxpr(fwd, axis_size, dims, [*[None] * n_res, *out_dims])
    ct_dims = [d for d, f in zip(out_dims, inexact(call.out_avals), strict=True) if f]
    arg_dims = [d for d, f in zip(dims, inexact(call.in_avals), strict=True) if f]
    bwd, found = vmap_jaxpr(bwd, axis_size, [*fwd_dims[:n_res], *ct_dims], arg_dims)
    shared = [d if w is None else None for d, w in zip(found, arg_dims, strict=True)]
    return fwd, _summed(bwd, shared)


def _summed(bwd: ClosedJaxpr, axes: Sequence[int | None]) -> ClosedJaxpr:
    """Return a backward rule that sums its results along these axes: cotangents of operands that
    all examples share.
    """
    if not any(d is not None for d in axes):
        return bwd

    def rule(*xs: Any) -> list[Any]:
        cts = apply_jaxpr(bwd, xs)
        return [ct if d is None else ct.sum(d) for ct, d in zip(cts, axes, strict=True)]

    return _SUMMED.of(bwd, tuple(axes), lambda: stage_shared(rule, bwd.in_avals))


_SUMMED = MemoTable[ClosedJaxpr]("summed over a batch")


define(
    lax.custom_vjp_call,
    **_CUSTOM,
    abstract_eval=custom_vjp_types,
    jvp=_custom_vjp_jvp,
    batch=_custom_vjp_batch,
)


# -- custom_lin --------------------------------------------------------------------------------

_FORWARD_ONLY_BY_TRANSPOSE = unsupported(
    "a function with a custom vjp rule has no forward derivative",
    help="vjp and grad use its rule, except in a while; linearize gives the linear map for transpose",
)


def _refuse(column: str, bwd: str) -> NoReturn:
    said = f"its backward rule {str(bwd)!r}"
    why = (
        f"could not be traced ({bwd.reason})" if isinstance(bwd, LostRule) else "is not in the text"
    )
    message = f"no {column} rule for custom_lin: {said} {why}"
    fail(UnsupportedError, message, "no-rule", help=KEEPS_RULES)


def _custom_lin_transpose(
    cts: Value, *args: Value, num_res: int, bwd_jaxpr: Any, **params: Any
) -> Value:
    residuals, tangents = split_list(args, num_res)
    if bwd_jaxpr is None:
        _refuse("transpose", params["bwd"])
    out = apply_jaxpr(bwd_jaxpr, [*residuals, *map(instantiate, cts)])
    return [None] * num_res + [
        ct if type(t) is UndefPrimal else None for ct, t in zip(out, tangents, strict=True)
    ]


def _custom_lin_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    n_res, bwd = params["num_res"], params["bwd_jaxpr"]
    if bwd is None:
        _refuse("batch", params["bwd"])
    (res, tangents), (res_dims, tangent_dims) = split_list(vals, n_res), split_list(dims, n_res)
    tangents = [materialize(t, d, axis_size) for t, d in zip(tangents, tangent_dims, strict=True)]
    n_cts = len(bwd.in_avals) - n_res
    bwd, _ = vmap_jaxpr(bwd, axis_size, [*res_dims, *[0] * n_cts], 0)
    avals = tuple(a.update(shape=(axis_size, *a.shape)) for a in params["out_avals"])
    fields = {**params, "bwd_jaxpr": bwd, "out_avals": avals}
    return lax.custom_lin(*res, *tangents, **fields), [0] * len(avals)


define(
    lax.custom_lin,
    derivative="rule",
    abstract_eval=custom_lin_types,
    impl=_FORWARD_ONLY_BY_TRANSPOSE,
    jvp=_FORWARD_ONLY_BY_TRANSPOSE,
    transpose=_custom_lin_transpose,
    batch=_custom_lin_batch,
    lower=_FORWARD_ONLY_BY_TRANSPOSE,
    cost=FREE,
    varying="rule",
)
