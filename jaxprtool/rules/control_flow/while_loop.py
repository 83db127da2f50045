"""The row of `while`.

Reverse mode is refused: the number of residuals is not known before the loop has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import state
from jaxprtool.core.partition import merge_lists, partition_list, split_list
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import Cost, Loop, cost_jaxpr
from jaxprtool.interpreters.dce import dce_body
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.evaluation.limits import steps
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate, jvp_jaxpr
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value, Var, type_of
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import prepared_impl
from jaxprtool.makers.mapped_calls import by_devices
from jaxprtool.rules.control_flow.discharging import discharge_while
from jaxprtool.rules.control_flow.loops import (
    check_carry,
    check_counts,
    fixpoint,
    narrowed,
    pick,
    with_unused,
)
from jaxprtool.rules.define import define

__all__: list[str] = []


def _types(
    *operands: Aval,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Aval]:
    counts = {"cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts}
    check_counts("while", len(operands), counts)
    cond_consts, body_consts, carry = split_list(operands, cond_nconsts, body_nconsts)
    pred = check_call("while: cond_jaxpr", cond_jaxpr, [*cond_consts, *carry], "cond_jaxpr")
    if len(pred) != 1 or pred[0].dtype is not BOOL:
        got = ", ".join(map(str, pred)) or "nothing"
        ill_typed(f"while: cond_jaxpr returns {got}; one bool[] is needed", "loop-condition")
    _check_batch("while", pred[0].shape, carry)
    after = check_call("while: body_jaxpr", body_jaxpr, [*body_consts, *carry], "body_jaxpr")
    if len(after) != len(carry):
        ill_typed(
            f"while: the carry has {counted(len(carry), 'part')}, and body_jaxpr returns {len(after)}",
            "carry-type",
        )
    check_carry("while", carry, after, body_jaxpr.jaxpr.in_binders[body_nconsts:])
    return after


def _check_batch(name: str, shape: tuple[int, ...], carry: Sequence[Value]) -> None:
    """Check that every part of the carry starts with the batch axes of the condition, if it has any."""
    for i, a in enumerate(carry):
        if a.shape[: len(shape)] != shape:
            ill_typed(
                f"{name}: cond_jaxpr returns bool[{','.join(map(str, shape))}], and part {i} of the "
                f"carry is {a}, which does not start with these axes",
                "loop-condition",
            )


@prepared_impl
def _impl(xp: Namespace, **params: Any) -> Callable[..., Value]:
    """Evaluate the condition and the body in turn, each prepared once."""
    holds, step = runner(params["cond_jaxpr"]), runner(params["body_jaxpr"])
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    span = params["body_jaxpr"].jaxpr.span
    if params["cond_jaxpr"].out_avals[0].shape:
        return _run_batched(xp, holds, step, n_cond, n_body, span)

    def run(*operands: Value) -> list[Value]:
        cond_consts, body_consts, carry = split_list(operands, n_cond, n_body)
        for _ in steps("while", None, span):
            if not holds([*cond_consts, *carry])[0]:
                break
            carry = step([*body_consts, *carry])
        return carry

    return run


def _run_batched(
    xp: Namespace, holds: Any, step: Any, n_cond: int, n_body: int, span: Any
) -> Value:
    """Return the loop over a batch: examples whose condition is false keep their carry."""

    def keep(pred: Value, new: Value, old: Value) -> Value:
        data = xp.words(new)  # of keys, the words; anything else itself
        which = pred.reshape(pred.shape + (1,) * (data.ndim - pred.ndim))
        chosen = xp.where(which, data, xp.words(old))
        return chosen if data is new else xp.keys(chosen, new.dtype)

    def run(*operands: Value) -> list[Value]:
        cond_consts, body_consts, carry = split_list(operands, n_cond, n_body)
        for _ in steps("while", None, span):
            (pred,) = holds([*cond_consts, *carry])
            if not pred.any():
                break
            after = step([*body_consts, *carry])
            carry = [keep(pred, new, old) for new, old in zip(after, carry, strict=True)]
        return carry

    return run


def _jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    body: ClosedJaxpr = params["body_jaxpr"]
    sizes = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = split_list(primals, *sizes)
    _, const_ts, carry_ts = split_list(tangents, *sizes)
    const_nz = [type(t) is not Zero for t in const_ts]
    nonzero = fixpoint(
        lambda nz: jvp_jaxpr(body, [*const_nz, *nz], instantiate_outs=nz)[1],
        [type(t) is not Zero for t in carry_ts],
    )
    transformed, _ = jvp_jaxpr(body, [*const_nz, *nonzero], instantiate_outs=nonzero)
    live_consts = [t for t in const_ts if type(t) is not Zero]
    live_carry = [instantiate(t) for t, nz in zip(carry_ts, nonzero, strict=True) if nz]
    n, k, m = len(body_consts), len(carry), len(live_consts)
    order = [*range(n), *range(n + k, n + k + m), *range(n, n + k)]
    order += range(n + k + m, n + k + m + len(live_carry))
    outs = _apply(
        [*cond_consts, *body_consts, *live_consts, *carry, *live_carry],
        cond_jaxpr=with_unused(params["cond_jaxpr"], [get_aval(t) for t in live_carry]),
        body_jaxpr=pick(transformed, order),
        cond_nconsts=len(cond_consts),
        body_nconsts=n + m,
    )
    return outs[:k], fill_zeros(nonzero, outs[k:], map(get_aval, outs[:k]))


def _batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    """The batch rule.

    The condition of a `while` may have batch axes: the loop then runs until it is false for all
    examples.

    The batch axis goes to the front if the condition is batched by it. Otherwise it goes after the
    batch axes that the condition has already, since those come first in every part of the carry.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    sizes = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = split_list(vals, *sizes)
    cond_dims, body_dims, carry_dims = split_list(dims, *sizes)

    def carried(flags: Sequence[bool], axis: int) -> list[int | None]:
        return [axis if f else None for f in flags]

    def step(flags: list[bool]) -> list[bool]:
        out = vmap_jaxpr(body, axis_size, [*body_dims, *carried(flags, rank)], None)[1]
        return [d is not None for d in out]

    rank = len(cond.out_avals[0].shape)
    batched = fixpoint(step, [d is not None for d in carry_dims])
    pred_dim = vmap_jaxpr(cond, axis_size, [*cond_dims, *carried(batched, rank)], None)[1][0]
    if pred_dim is not None:
        held = ["cond_jaxpr", "body_jaxpr"]
        apart = by_devices(lax.while_call.primitive, _batch, axis_size, vals, dims, params, held)
        if apart is not None:
            return apart
    new_dims = carried(batched, rank)
    if pred_dim is not None:
        new_dims = [0] * len(batched)
    pred_dims = [None if pred_dim is None else 0]
    new_cond, _ = vmap_jaxpr(cond, axis_size, [*cond_dims, *new_dims], pred_dims)
    new_body, _ = vmap_jaxpr(body, axis_size, [*body_dims, *new_dims], new_dims)
    start = [
        x if axis is None else materialize(x, d, axis_size, axis)
        for x, d, axis in zip(carry, carry_dims, new_dims, strict=True)
    ]
    fields = {**params, "cond_jaxpr": new_cond, "body_jaxpr": new_body}
    return _apply([*cond_consts, *body_consts, *start], **fields), new_dims


def _apply(operands: Sequence[Value], **params: Any) -> list[Value]:
    """Bind `while` with transformed parts, whose carry has the types of the operands.

    They are not compared: values have no sharding, where the types in the parts have one.
    """
    outs = [*map(type_of, params["body_jaxpr"].jaxpr.outs)]
    return state.trace.process_typed(lax.while_call.primitive, operands, params, outs)


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Any], **params: Any) -> list[Any]:
    """Run the known parts of the carry in a loop of their own, and record the whole loop.

    The recorded loop computes the known parts again: their values in all steps cannot be residuals,
    because the number of steps is not known.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    sizes = params["cond_nconsts"], params["body_nconsts"]
    cond_unks, body_unks, carry_unks = split_list([trace.is_unknown(x) for x in args], *sizes)
    unknown = fixpoint(
        lambda u: partial_eval_jaxpr(body, [*body_unks, *u], u)[2],
        carry_unks,
    )
    cond_unknown = partial_eval_jaxpr(cond, [*cond_unks, *unknown])[2][0]
    atoms = trace.atoms(args)
    avals = [a.strong for a in body.out_avals]
    if cond_unknown or all(unknown):
        return trace.emit(lax.while_call.primitive, atoms, params, avals)
    cond_consts, body_consts, carry = split_list(args, *sizes)
    known_outs = trace.known(
        lax.while_call,
        *partition_list(cond_unks, cond_consts)[0],
        *partition_list(body_unks, body_consts)[0],
        *partition_list(unknown, carry)[0],
        cond_jaxpr=_known_part(cond, [*cond_unks, *unknown], [False]),
        body_jaxpr=_known_part(body, [*body_unks, *unknown], unknown),
        cond_nconsts=cond_unks.count(False),
        body_nconsts=body_unks.count(False),
    )
    recorded = trace.emit(lax.while_call.primitive, atoms, params, avals)
    return merge_lists(unknown, known_outs, compress(recorded, unknown))


def _known_part(
    closed: ClosedJaxpr, unks_in: Sequence[bool], unks_out: Sequence[bool]
) -> ClosedJaxpr:
    """Return the jaxpr of the known results from the known arguments, without residuals.

    Dead code elimination alone is not enough: an equation with an unknown operand can have known
    results.
    """
    known, _, _, n_res = partial_eval_jaxpr(closed, unks_in, unks_out)
    used = [True] * (len(known.jaxpr.outs) - n_res) + [False] * n_res
    return narrowed(known, [True] * len(known.in_avals), used)


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Drop the constants that nothing reads, and the parts of the carry that neither a used result
    nor the condition needs.
    """
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, cond_used = split_list(dce_body(cond, [True])[1], n_cond)
    start = [a or b for a, b in zip(used_outs, cond_used, strict=True)]
    used = fixpoint(lambda u: dce_body(body, u)[1][n_body:], start)
    body_consts = dce_body(body, used)[1][:n_body]
    used_ins = [*cond_consts, *body_consts, *used]
    new_cond = narrowed(cond, [*cond_consts, *used], [True])
    new_body = narrowed(body, [*body_consts, *used], used)
    if all(used_ins) and new_cond is cond and new_body is body:
        return eqn, used_ins
    fields = {
        **params,
        "cond_jaxpr": new_cond,
        "body_jaxpr": new_body,
        "cond_nconsts": sum(cond_consts),
        "body_nconsts": sum(body_consts),
    }
    inputs = [x for x, u in zip(eqn.inputs, used_ins, strict=True) if u]
    outs = [v for v, u in zip(eqn.out_binders, used, strict=True) if u]
    return eqn.replace(inputs=inputs, out_binders=outs, params=fields), used_ins


def _lower(ctx: Value, *operands: Value, **params: Any) -> list[Any]:
    sizes = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = split_list(operands, *sizes)
    cond: ClosedJaxpr = params["cond_jaxpr"]
    batch = cond.out_avals[0].shape

    def goes_on(*xs: Value) -> list[Value]:
        (pred,) = ctx.inline(cond, [*cond_consts, *xs])
        if not batch:
            return [pred]
        start = ctx.constant(False, pred.aval.update(shape=()))
        return [ctx.reduce("or", pred, start, tuple(range(len(batch))))]

    def step(*xs: Value) -> list[Value]:
        after = ctx.inline(params["body_jaxpr"], [*body_consts, *xs])
        if not batch:
            return after
        (pred,) = ctx.inline(cond, [*cond_consts, *xs])
        return [_keep(ctx, pred, new, old) for new, old in zip(after, xs, strict=True)]

    return ctx.loop(carry, goes_on, step, cond, params["body_jaxpr"])


def _keep(ctx: LoweringContext, pred: HloValue, new: HloValue, old: HloValue) -> HloValue:
    """Select the new value for examples that go on, and the old one for the others."""
    shape = new.aval.physical.shape
    if pred.aval.shape != shape:
        dims = tuple(range(len(pred.aval.shape)))
        pred = ctx.broadcast(pred, pred.aval.update(shape=shape), dims)
    return ctx.select(pred, new, old)


def _passing(
    passed: Callable[[ClosedJaxpr], ClosedJaxpr], eqn: JaxprEqn, point: Sequence[Var]
) -> JaxprEqn:
    """Insert the numbers as first constants of both jaxprs."""
    n, k = len(point), eqn.params["cond_nconsts"]
    params = {
        **eqn.params,
        "cond_jaxpr": passed(eqn.params["cond_jaxpr"]),
        "body_jaxpr": passed(eqn.params["body_jaxpr"]),
        "cond_nconsts": k + n,
        "body_nconsts": eqn.params["body_nconsts"] + n,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs[:k], *point, *eqn.inputs[k:]], params=params)


define(
    lax.while_call,
    abstract_eval=_types,
    impl=_impl,
    jvp=_jvp,
    transpose=unsupported(
        "reverse mode of a while loop would need residuals of a number of steps that is not known; "
        "use scan, or a loop with a fixed trip count"
    ),
    batch=_batch,
    lower=_lower,
    cost=lambda ins, outs, *, cond_jaxpr, body_jaxpr, **_: (
        cost_jaxpr(cond_jaxpr) + Cost(0, 0, 0, ((Loop(cond_jaxpr, body_jaxpr), 1),))
    ),
    runs=lambda params: [
        Run("cond_jaxpr", params["cond_jaxpr"], 1, turns=1),
        Run("body_jaxpr", params["body_jaxpr"], 0, turns=1),
    ],
    partial_eval=_partial_eval,
    dce=_dce,
    passing=_passing,
    discharge=discharge_while,
    steers="cond_jaxpr",
)
