"""The row of `scan`: a loop with a fixed number of steps, a carry, and one slice of each xs and ys per step.

Every rule transforms the body and scans the transformed body. Residuals, values of a step that a
later loop needs, become stacked ys. A residual that is the same in all steps is passed to the later
loop as a constant instead, and one that is a slice of an operand as that operand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.declared import refuse_param
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, moveaxis, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import Cost, cost_jaxpr
from jaxprtool.interpreters.dce import dce_body, surely_read
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.evaluation.limits import steps
from jaxprtool.interpreters.evaluation.observe import devices_of, runs_for_devices
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate, jvp_jaxpr
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.avals import RefType, ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import count_eqns
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import prepared_impl
from jaxprtool.rules.control_flow.discharging import discharge_scan
from jaxprtool.rules.control_flow.loops import (
    apply_scan,
    check_carry,
    check_counts,
    fixpoint,
    narrowed,
    pick,
    scan_params,
    split_operands,
    stacked_aval,
)
from jaxprtool.rules.control_flow.scan_partial_eval import (
    linearize_scan,
    partial_eval_scan,
    saving_scan,
)
from jaxprtool.rules.control_flow.scan_transpose import transpose_scan
from jaxprtool.rules.define import define

__all__: list[str] = []


def _types(
    *operands: Aval,
    jaxpr: ClosedJaxpr,
    length: int,
    num_carry: int,
    num_consts: int,
    unroll: int,
    **_: ParamValue,
) -> list[Aval]:
    for name, n in (("length", length), ("unroll", unroll)):
        symbolic = name == "length" and isinstance(n, SymbolicDim)
        if not symbolic and (not isinstance(n, int) or n < 0):
            ill_typed(f"scan: {name}={n} is no number of steps", "param-value")
    check_counts("scan", len(operands), {"num_consts": num_consts, "num_carry": num_carry})
    consts, carry, xs = split_list(operands, num_consts, num_carry)
    if isinstance(length, SymbolicDim) and xs and all(x.shape[:1] != (length,) for x in xs):
        refuse_param(lax.scan_call.primitive, "length", length)  # a word that is no dimension
    slices = [_slice_type(x, length, i) for i, x in enumerate(xs, num_consts + num_carry)]
    outs = check_call("scan", jaxpr, [*consts, *carry, *slices])
    if len(outs) < num_carry:
        ill_typed(
            f"scan: jaxpr has {counted(len(outs), 'result')}, fewer than num_carry={num_carry}",
            "carry-type",
        )
    after = outs[:num_carry]
    if after != carry:
        check_carry("scan", carry, after, jaxpr.jaxpr.in_binders[num_consts:])
    return after + [stacked_aval(y, length) for y in outs[num_carry:]]


def _slice_type(x: Aval, length: int, position: int) -> Aval:
    """Return the type of one slice of an operand among xs, which may be a reference."""
    if type(x) is RefType:
        return RefType(_slice_type(x.inner, length, position), x.space)
    if not x.shape or x.shape[0] != length:
        ill_typed(
            f"scan: operand {position} is {x}, and its first axis has to have the size "
            f"length={length}",
            "scan-length",
        )
    return _slice_aval(x)


@functools.cache
def _slice_aval(aval: Aval) -> Aval:
    """Return the type of one of the values that are stacked along the first axis."""
    return aval.update(shape=aval.shape[1:])


@prepared_impl
def _impl(xp: Namespace, **params: Any) -> Callable[..., Value]:
    """Return a function that runs the prepared body once for each step; only ys take memory per
    step.
    """
    closed, length = params["jaxpr"], params["length"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    step, span = runner(closed), closed.jaxpr.span
    ys_avals = closed.out_avals[n_carry:]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)

    def run(*operands: Value) -> list[Value]:
        consts, carry, xs = split_list(operands, n_consts, n_carry)
        ys = [
            xp.empty((length, *a.shape), xp.dtype_of_aval(a.dtype))
            if a.dtype.kind != "k"
            else [None] * length
            for a in ys_avals
        ]
        for i in steps("scan", length, span, order):
            outs = step([*consts, *carry, *[x[i] for x in xs]])
            carry = outs[:n_carry]
            for y, value in zip(ys, outs[n_carry:], strict=True):
                y[i] = value
        stacked = [
            xp.stack_keys(y, a) if a.dtype.kind == "k" else y
            for y, a in zip(ys, ys_avals, strict=True)
        ]
        return [*carry, *stacked]

    return run


def _jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    closed: ClosedJaxpr = params["jaxpr"]
    (consts, carry, xs), (const_ts, carry_ts, xs_ts) = (
        split_operands(primals, params),
        split_operands(tangents, params),
    )
    const_nz, xs_nz = ([type(t) is not Zero for t in ts] for ts in (const_ts, xs_ts))
    n_ys = len(closed.jaxpr.outs) - len(carry)

    def step(nz: list[bool]) -> list[bool]:
        flags = jvp_jaxpr(
            closed, [*const_nz, *nz, *xs_nz], instantiate_outs=[*nz, *[False] * n_ys]
        )[1]
        return flags[: len(carry)]

    nonzero = fixpoint(step, [type(t) is not Zero for t in carry_ts])
    wanted = [*nonzero, *[False] * n_ys]
    body, flags = jvp_jaxpr(closed, [*const_nz, *nonzero, *xs_nz], instantiate_outs=wanted)
    live = [
        [t for t in const_ts if type(t) is not Zero],
        [instantiate(t) for t, nz in zip(carry_ts, nonzero, strict=True) if nz],
        [t for t in xs_ts if type(t) is not Zero],
    ]
    ins = _interleave([len(consts), len(carry), len(xs)], [len(t) for t in live])
    outs = _interleave([len(carry), n_ys], [sum(nonzero), sum(flags[len(carry) :])])
    results = apply_scan(
        pick(body, ins, outs), [*consts, *live[0]], [*carry, *live[1]], [*xs, *live[2]], params
    )
    carry_out, carry_ts_out, ys, ys_ts = split_list(results, len(carry), sum(nonzero), n_ys)
    primals_out = [*carry_out, *ys]
    return primals_out, fill_zeros(flags, [*carry_ts_out, *ys_ts], map(get_aval, primals_out))


def _interleave(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Return the positions of the groups a1 b1 a2 b2 ... in a list that has all the a's, then all the b's.

    Args:
      first: the sizes of the groups a1, a2, ...
      second: the sizes of the groups b1, b2, ...
    """
    order: list[int] = []
    a, b = 0, sum(first)
    for n, m in zip(first, second, strict=True):
        order += [*range(a, a + n), *range(b, b + m)]
        a, b = a + n, b + m
    return order


def _batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    closed: ClosedJaxpr = params["jaxpr"]
    (consts, carry, xs), (const_dims, carry_dims, xs_dims) = (
        split_operands(vals, params),
        split_operands(dims, params),
    )
    xs = [moveaxis(x, 0, 1) if d == 0 else x for x, d in zip(xs, xs_dims, strict=True)]
    slice_dims = [None if d is None else max(d, 1) - 1 for d in xs_dims]

    def step(flags: list[bool]) -> list[bool]:
        inner = [0 if f else None for f in flags]
        out = vmap_jaxpr(closed, axis_size, [*const_dims, *inner, *slice_dims], None)[1]
        return [d is not None for d in out[: len(carry)]]

    batched = fixpoint(step, [d is not None for d in carry_dims])
    inner = [0 if f else None for f in batched]
    n_ys = len(closed.jaxpr.outs) - len(carry)
    body, out_dims = vmap_jaxpr(
        closed, axis_size, [*const_dims, *inner, *slice_dims], [*inner, *[None] * n_ys]
    )
    start = [
        materialize(x, d, axis_size) if f else x
        for x, d, f in zip(carry, carry_dims, batched, strict=True)
    ]
    outs = apply_scan(body, consts, start, xs, params)
    ys_dims = [None if d is None else d + 1 for d in out_dims[len(carry) :]]
    return outs, [*inner, *ys_dims]


# -- dead code, lowering -----------------------------------------------------------------------


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Drop the ys that are not used, the parts of the carry that no remaining result needs, and the
    operands that the smaller body does not use.
    """
    params = eqn.params
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    if all(used_outs):
        body, used_ins = dce_body(closed, used_outs)
        if body is closed.jaxpr and all(used_ins[:n_consts] + used_ins[n_consts + n_carry :]):
            return eqn, [True] * len(used_ins)
    used_ys = used_outs[n_carry:]
    carried = _needed_carry(closed, n_consts, used_outs[:n_carry], used_ys)
    outs_kept = [*carried, *used_ys]
    _, used_ins = dce_body(closed, outs_kept)
    used_ins = used_ins[:n_consts] + carried + used_ins[n_consts + n_carry :]
    small = narrowed(closed, used_ins, outs_kept)
    runs_for_devices(small.jaxpr, devices_of(closed.jaxpr))
    fields = scan_params(small, sum(used_ins[:n_consts]), sum(carried), params)
    inputs, outs = [*compress(eqn.inputs, used_ins)], [*compress(eqn.out_binders, outs_kept)]
    return eqn.replace(inputs=inputs, out_binders=outs, params=fields), used_ins


def _needed_carry(
    closed: ClosedJaxpr, n_consts: int, used_carry: Sequence[bool], used_ys: Sequence[bool]
) -> list[bool]:
    """Return which parts of the carry the used results need: the smallest set of parts that depends on no other part.

    If no part of the carry is used itself (as in the first loop of a reverse derivative, which only
    makes residuals), usually all parts are needed. So it is checked first whether the body without
    dead code surely uses each of them.
    """
    n = len(used_carry)
    carry_at = slice(n_consts, n_consts + n)

    def needed(flags: list[bool]) -> list[bool]:
        return dce_body(closed, [*flags, *used_ys])[1][carry_at]

    if any(used_carry):
        return fixpoint(needed, used_carry)
    body, _ = dce_body(closed, [*[True] * n, *used_ys])

    def certain(flags: list[bool]) -> list[bool]:
        read = surely_read(body.eqns, [*compress(body.outs, flags), *body.outs[n:]])
        return [v in read for v in body.in_binders[carry_at]]

    return fixpoint(needed, fixpoint(certain, used_carry))


# The largest number of equations in one iteration of the compiled loop, whatever `unroll` is: XLA
# takes minutes to compile more, and `unroll` changes nothing but speed.
_MAX_UNROLLED = 20_000


def _lower(ctx: Value, *operands: Value, **params: Any) -> list[Any]:
    """Write a stablehlo.while over a counter, the carry, and the ys so far, which are updated in
    place.

    As in JAX, one iteration takes `unroll` steps, and the remaining steps are written after the
    loop. If one iteration would be enough (`unroll` is 0, or at least the number of steps), there
    is no loop.
    """
    closed, length = params["jaxpr"], params["length"]
    consts, carry, xs = split_operands(operands, params)
    counter = ShapedArray((), INT32)
    ys_avals = [stacked_aval(a.physical, length) for a in closed.out_avals[len(carry) :]]
    ys = [ctx.constant(False if a.dtype.kind == "b" else 0, a) for a in ys_avals]
    unroll = params["unroll"] or length
    unroll = min(unroll, max(1, _MAX_UNROLLED // max(1, count_eqns(closed.jaxpr))))
    in_loop = length - length % unroll if unroll == 1 or unroll < length else 0

    def number(i: Value, k: int) -> Value:
        """Return the position in xs and ys of step k of the iteration whose counter is `i`."""
        if params["reverse"]:
            return ctx.op("subtract", ctx.constant(length - 1 - k, counter), i, out=counter)
        return ctx.op("add", i, ctx.constant(k, counter), out=counter) if k else i

    def take(n: int, i: Value, *state: Value) -> list[Value]:
        now, so_far = split_list(state, len(carry))
        for k in range(n):
            at = number(i, k)
            slices = [_slice_at(ctx, x, at) for x in xs]
            now, parts = split_list(ctx.inline(closed, [*consts, *now, *slices]), len(carry))
            so_far = [_write_at(ctx, y, part, at) for y, part in zip(so_far, parts, strict=True)]
        return [*now, *so_far]

    def holds(i: Value, *_: Value) -> list[Value]:
        return [ctx.compare("LT", i, ctx.constant(in_loop, counter))]

    def turn(i: Value, *state: Value) -> list[Value]:
        new = take(unroll, i, *state)
        return [ctx.op("add", i, ctx.constant(unroll, counter), out=counter), *new]

    state = [*carry, *ys]
    if in_loop:
        state = ctx.loop([ctx.constant(0, counter), *state], holds, turn, None, closed)[1:]
    if in_loop < length:
        state = take(length - in_loop, ctx.constant(in_loop, counter), *state)
    return state


def _slice_at(ctx: LoweringContext, x: HloValue, i: HloValue) -> HloValue:
    shape = x.aval.shape
    zero = ctx.constant(0, i.aval)
    sizes = (1, *shape[1:])
    out = x.aval.update(shape=sizes)
    starts = [i, *[zero] * (len(shape) - 1)]
    part = ctx.op("dynamic_slice", x, *starts, out=out, slice_sizes=sizes)
    return ctx.reshape(part, shape[1:])


def _write_at(ctx: LoweringContext, y: HloValue, part: HloValue, i: HloValue) -> HloValue:
    zero = ctx.constant(0, i.aval)
    starts = [i, *[zero] * (len(y.aval.shape) - 1)]
    row = ctx.reshape(part, (1, *part.aval.shape))
    return ctx.op("dynamic_update_slice", y, row, *starts, out=y.aval)


def _cost(
    ins: Sequence[Value], outs: Sequence[Value], *, jaxpr: ClosedJaxpr, length: int, **_: ParamValue
) -> Cost:
    return cost_jaxpr(jaxpr) * length


def _runs(params: dict[str, Any]) -> list[Run]:
    """Return one run of the body for each step. A symbolic number of steps counts as unknown."""
    length = params["length"]
    known = isinstance(length, int)
    return [Run("jaxpr", params["jaxpr"], length if known else 0, turns=0 if known else 1)]


def _passing(
    passed: Callable[[ClosedJaxpr], ClosedJaxpr], eqn: JaxprEqn, point: Sequence[Var]
) -> JaxprEqn:
    """Insert the numbers as first constants of the loop."""
    params = {
        **eqn.params,
        "jaxpr": passed(eqn.params["jaxpr"]),
        "num_consts": eqn.params["num_consts"] + len(point),
        "linear": None,
    }
    return eqn.replace(inputs=[*point, *eqn.inputs], params=params)


define(
    lax.scan_call,
    abstract_eval=_types,
    impl=_impl,
    jvp=_jvp,
    transpose=transpose_scan,
    batch=_batch,
    lower=_lower,
    cost=_cost,
    runs=_runs,
    partial_eval=partial_eval_scan,
    saving=saving_scan,
    passing=_passing,
    linearize=linearize_scan,
    dce=_dce,
    discharge=discharge_scan,
)
