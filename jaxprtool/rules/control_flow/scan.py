"""The row of `scan`: a loop with a fixed number of steps, a carry, and slices in and out.

Every rule works on the body and scans the result. What differs between steps has to be stacked: where a
rule needs values of each step (residuals), it passes those that are the same in all steps as
constants, and those that are slices already as the arrays they are slices of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import set_current_trace
from jaxprtool.core.lists import partition_list, split_list
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, moveaxis, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.cost import Cost, cost_jaxpr
from jaxprtool.interpreters.dce import dce_jaxpr, prune_consts
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.jvp import Zero, add_tangents, instantiate, jvp_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.interpreters.steps import steps
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass, is_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.rules.calls import check_call, inline
from jaxprtool.rules.control_flow.loops import check_carry, check_counts, fixpoint, pick
from jaxprtool.rules.define import define

__all__: list[str] = []


def _stacked(aval: Any, length: int) -> Any:
    return aval.update(shape=(length, *aval.shape))


def _types(
    *operands: Any, jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int, **_: Any
) -> list[Any]:
    if not isinstance(length, int) or length < 0:
        ill_typed(f"scan: length={length} is no number of steps", "param-value")
    check_counts("scan", len(operands), {"num_consts": num_consts, "num_carry": num_carry})
    consts, carry, xs = split_list(operands, num_consts, num_carry)
    for i, x in enumerate(xs):
        if not x.shape or x.shape[0] != length:
            ill_typed(
                f"scan: operand {num_consts + num_carry + i} is {x}, and its first axis has to have "
                f"the size length={length}",
                "scan-length",
            )
    slices = [x.update(shape=x.shape[1:]) for x in xs]
    outs = check_call("scan", jaxpr, [*consts, *carry, *slices])
    if len(outs) < num_carry:
        ill_typed(
            f"scan: jaxpr has {len(outs)} results, fewer than num_carry={num_carry}", "carry-type"
        )
    check_carry("scan", carry, outs[:num_carry], jaxpr.jaxpr.in_binders[num_consts:])
    return outs[:num_carry] + [_stacked(y, length) for y in outs[num_carry:]]


class _Impl:
    """Runs the prepared body once for each step; nothing but ys grows with their number."""

    def __call__(self, xp: Any, *operands: Any, **params: Any) -> list[Any]:
        return self.prepare(xp, None, None, params)(*operands)

    def prepare(self, xp: Any, in_avals: Any, out_avals: Any, params: Any) -> Any:
        closed, length = params["jaxpr"], params["length"]
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        step, span = runner(closed), closed.jaxpr.span
        ys_avals = closed.out_avals[n_carry:]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)

        def run(*operands: Any) -> list[Any]:
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


def _scan(
    closed: ClosedJaxpr,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    params: dict[str, Any],
) -> list[Any]:
    """Apply scan to a transformed body."""
    fields = _fields(closed, len(consts), len(carry), params)
    return lax.scan_call(*consts, *carry, *xs, **fields)


def _fields(
    closed: ClosedJaxpr, n_consts: int, n_carry: int, params: dict[str, Any]
) -> dict[str, Any]:
    changes = {"jaxpr": closed, "num_consts": n_consts, "num_carry": n_carry, "linear": None}
    return {**params, **changes}


def _split(values: Sequence[Any], params: dict[str, Any]) -> list[list[Any]]:
    return split_list(values, params["num_consts"], params["num_carry"])


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    closed: ClosedJaxpr = params["jaxpr"]
    (consts, carry, xs), (const_ts, carry_ts, xs_ts) = (
        _split(primals, params),
        _split(tangents, params),
    )
    const_nz, xs_nz = ([type(t) is not Zero for t in ts] for ts in (const_ts, xs_ts))
    n_ys = len(closed.out_avals) - len(carry)

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
    results = iter(
        _scan(
            pick(body, ins, outs), [*consts, *live[0]], [*carry, *live[1]], [*xs, *live[2]], params
        )
    )

    def take(n: int) -> list[Any]:
        return [next(results) for _ in range(n)]

    carry_out, carry_ts_out = take(len(carry)), take(sum(nonzero))
    ys, ys_ts = take(n_ys), take(sum(flags[len(carry) :]))
    primals_out, rest = [*carry_out, *ys], iter([*carry_ts_out, *ys_ts])
    return primals_out, [
        next(rest) if f else Zero(get_aval(p)) for f, p in zip(flags, primals_out, strict=True)
    ]


def _interleave(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Positions of groups a1 b1 a2 b2 ... in a list that has all the a's, then all the b's."""
    order: list[int] = []
    a, b = 0, sum(first)
    for n, m in zip(first, second, strict=True):
        order += [*range(a, a + n), *range(b, b + m)]
        a, b = a + n, b + m
    return order


def _batch(axis_size: int, vals: Any, dims: Any, **params: Any) -> Any:
    closed: ClosedJaxpr = params["jaxpr"]
    (consts, carry, xs), (const_dims, carry_dims, xs_dims) = (
        _split(vals, params),
        _split(dims, params),
    )
    xs = [moveaxis(x, 0, 1) if d == 0 else x for x, d in zip(xs, xs_dims, strict=True)]
    slice_dims = [None if d is None else max(d, 1) - 1 for d in xs_dims]

    def step(flags: list[bool]) -> list[bool]:
        inner = [0 if f else None for f in flags]
        out = vmap_jaxpr(closed, axis_size, [*const_dims, *inner, *slice_dims], None)[1]
        return [d is not None for d in out[: len(carry)]]

    batched = fixpoint(step, [d is not None for d in carry_dims])
    inner = [0 if f else None for f in batched]
    n_ys = len(closed.out_avals) - len(carry)
    body, out_dims = vmap_jaxpr(
        closed, axis_size, [*const_dims, *inner, *slice_dims], [*inner, *[None] * n_ys]
    )
    start = [
        materialize(x, d, axis_size) if f else x
        for x, d, f in zip(carry, carry_dims, batched, strict=True)
    ]
    outs = _scan(body, consts, start, xs, params)
    ys_dims = [None if d is None else d + 1 for d in out_dims[len(carry) :]]
    return outs, [*inner, *ys_dims]


# -- partial evaluation ------------------------------------------------------------------------


class _Split(NamedTuple):
    """A scan cut in two.

    known_outs: its known results. closed, consts, carry, xs: the scan of the rest. unks_out: which results
    those are.
    """

    known_outs: list[Any]
    closed: ClosedJaxpr
    consts: list[Any]
    carry: list[Any]
    xs: list[Any]
    unks_out: list[bool]


def _carried(
    closed: ClosedJaxpr, consts: Sequence[bool], carry: Sequence[bool], xs: Sequence[bool]
) -> list[bool]:
    """Which parts of the carry depend on an unknown operand, in some step."""
    n_ys = len(closed.out_avals) - len(carry)

    def step(flags: list[bool]) -> list[bool]:
        wanted = [*flags, *[False] * n_ys]
        return partial_eval_jaxpr(closed, [*consts, *flags, *xs], wanted)[2][: len(carry)]

    return fixpoint(step, carry)


def _split_scan(
    unks: Sequence[bool],
    args: Sequence[Any],
    params: dict[str, Any],
    known: Callable[..., Any],
) -> _Split:
    """Scan the known part of the body, and say what is left to scan.

    known(f, *args) calls f where known operations are to be applied.
    """
    closed: ClosedJaxpr = params["jaxpr"]
    const_unks, carry_unks, xs_unks = _split(unks, params)
    n_ys = len(closed.out_avals) - len(carry_unks)
    carried = _carried(closed, const_unks, carry_unks, xs_unks)
    wanted = [*carried, *[False] * n_ys]
    first, second, unks_out, n_res = partial_eval_jaxpr(
        closed, [*const_unks, *carried, *xs_unks], wanted
    )
    consts, carry, xs = _split(args, params)
    known_parts = [
        partition_list(u, x)[0] for u, x in ((const_unks, consts), (carried, carry), (xs_unks, xs))
    ]
    outs, invariant, stacked, places = known(_run_known, first, n_res, known_parts, params)
    n_binders = len(second.in_avals) - n_res
    const_u, carry_u = sum(const_unks), sum(carried)
    unknown_at = list(range(n_res, n_res + n_binders))
    consts_at, carry_at, xs_at = split_list(unknown_at, const_u, carry_u)
    invariant_at = [i for i, kind in enumerate(places) if kind]
    stacked_at = [i for i, kind in enumerate(places) if not kind]
    body = pick(second, [*invariant_at, *consts_at, *carry_at, *stacked_at, *xs_at])
    return _Split(
        outs,
        body,
        [*invariant, *partition_list(const_unks, consts)[1]],
        partition_list(carried, carry)[1],
        [*stacked, *partition_list(xs_unks, xs)[1]],
        unks_out,
    )


def _run_known(
    first: ClosedJaxpr, n_res: int, parts: Sequence[list[Any]], params: dict[str, Any]
) -> tuple[list[Any], list[Any], list[Any], list[bool]]:
    """Run the known part: its results, the residuals of all steps, and those of each step.

    The last result says of each residual whether it is the same in all steps.
    """
    consts, carry, xs = parts
    flags = [False] * len(consts) + [True] * (len(carry) + len(xs))
    n_out = len(first.out_avals) - n_res
    # What depends on constants alone is computed once, before the loop.
    before, body, varies, n_shared = partial_eval_jaxpr(
        first, flags, [*[True] * n_out, *[False] * n_res]
    )
    computed = inline(before, consts)
    fixed, shared = split_list(computed, len(computed) - n_shared)
    invariant = iter(fixed)
    places = [not v for v in varies[n_out:]]
    slots: list[Any] = [next(invariant) if same else None for same in places]
    jaxpr = body.jaxpr
    xs_vars = dict(zip(jaxpr.in_binders[n_shared + len(carry) :], xs, strict=True))
    varying = jaxpr.outs[n_out:]
    positions = [i for i, same in enumerate(places) if not same]
    stack: dict[Any, int] = {}  # residuals to stack, each once
    for i, x in zip(positions, varying, strict=True):
        if type(x) is not Lit and x in xs_vars:
            slots[i] = xs_vars[x]
        elif type(x) is not Lit:
            stack.setdefault(x, n_out + len(stack))
    outs_at = list(range(n_out)) + [jaxpr.outs.index(x, n_out) for x in stack]
    outs: list[Any] = []
    if outs_at:
        outs = _scan(pick(body, range(len(jaxpr.in_binders)), outs_at), shared, carry, xs, params)
    for i, x in zip(positions, varying, strict=True):
        if slots[i] is None:
            slots[i] = _repeat(x, params["length"]) if type(x) is Lit else outs[stack[x]]
    same_in_all = [s for s, same in zip(slots, places, strict=True) if same]
    of_each = [s for s, same in zip(slots, places, strict=True) if not same]
    return outs[:n_out], same_in_all, of_each, places


def _repeat(x: Lit, length: int) -> Any:
    return lax.broadcast_in_dim(x, shape=(length,))


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Any], **params: Any) -> list[Any]:
    unks = [trace.is_unknown(x) for x in args]
    cut = _split_scan(unks, args, params, trace.known)
    fields = _fields(cut.closed, len(cut.consts), len(cut.carry), params)
    atoms = [trace.atom(x) for x in (*cut.consts, *cut.carry, *cut.xs)]
    n_carry, length = len(cut.carry), params["length"]
    avals = [a.strong for a in cut.closed.out_avals]
    avals = avals[:n_carry] + [_stacked(a, length) for a in avals[n_carry:]]
    unknown = iter(trace.emit(lax.scan_call.primitive, atoms, fields, avals) if avals else [])
    known = iter(cut.known_outs)
    return [next(unknown) if u else next(known) for u in cut.unks_out]


# -- transposition -----------------------------------------------------------------------------


def _transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    """Scan the transposed body the other way round.

    Cotangents of the carry are carried, those of the constants are summed up in the carry, those of xs come
    out stacked. Parts of the carry on which no linear argument acts are computed by a forward scan first.
    """
    linear = [is_linear(x) for x in args]
    if not all(_carried(params["jaxpr"], *_split(linear, params))):
        return _transpose_after_split(cts, args, linear, params)
    consts, carry, xs = _split(args, params)
    body = _TransposedBody(params["jaxpr"], consts, carry, xs, cts)
    fields = {**params, "reverse": not params["reverse"]}
    start = [instantiate(ct) for ct, nz in zip(body.start, body.carried, strict=True) if nz]
    outs = iter(
        _scan(
            body.closed,
            [x for x in consts if not is_linear(x)],
            start,
            [*body.live_ys, *[x for x in xs if not is_linear(x)]],
            fields,
        )
    )
    carried = [
        next(outs) if nz else Zero(a) for nz, a in zip(body.carried, body.avals, strict=True)
    ]
    const_cts, carry_cts = iter(carried[: body.n_const]), iter(carried[body.n_const :])
    xs_cts = iter([next(outs) if nz else None for nz in body.xs_nonzero])
    return [
        *[next(const_cts) if is_linear(x) else None for x in consts],
        *[ct if is_linear(x) else None for ct, x in zip(carry_cts, carry, strict=True)],
        *[_or_zero(next(xs_cts), x) if is_linear(x) else None for x in xs],
    ]


def _or_zero(ct: Any, x: UndefPrimal) -> Any:
    return Zero(x.aval) if ct is None else ct


class _TransposedBody:
    """The body of the transposed scan.

    Attributes:
      closed: (non-linear constants, carried cotangents, cotangents of ys, non-linear slices of xs) ->
        (carried cotangents, cotangents of linear slices of xs).
      start, avals, carried: cotangents of the linear constants and of the carry at the start, their types,
        and which of them are not always zero; `n_const` of them belong to constants.
      live_ys: the cotangents of ys that are not zero.
      xs_nonzero: for each linear one of xs whether it gets a cotangent.
    """

    def __init__(self, closed: ClosedJaxpr, consts: Any, carry: Any, xs: Any, cts: Any):
        self.source, self.consts, self.carry, self.xs = closed, consts, carry, xs
        linear_consts = [x for x in consts if is_linear(x)]
        self.n_const = len(linear_consts)
        carry_cts, ys_cts = split_list(cts, len(carry))
        self.start = [*[Zero(x.aval) for x in linear_consts], *carry_cts]
        carry_avals = closed.in_avals[len(consts) : len(consts) + len(carry)]
        self.avals = [*[x.aval for x in linear_consts], *[a.strong for a in carry_avals]]
        self.live_ys = [ct for ct in ys_cts if type(ct) is not Zero]
        self.ys_nonzero = [type(ct) is not Zero for ct in ys_cts]
        self.carried = fixpoint(
            lambda nz: self.build(nz)[1], [type(ct) is not Zero for ct in self.start]
        )
        self.closed, _, self.xs_nonzero = self.build(self.carried)

    def build(self, nonzero: Sequence[bool]) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
        """The body for these carried cotangents; which come out nonzero, of the carry and of xs."""
        jaxpr = self.source.jaxpr
        trace = JaxprTrace()
        with set_current_trace(trace):
            known_consts = [
                trace.new_const(v.aval, c)
                for v, c in zip(jaxpr.const_binders, self.source.consts, strict=True)
            ]
            n, k = len(self.consts), len(self.carry)
            binders = jaxpr.in_binders
            const_args = [
                UndefPrimal(v.aval.strong) if is_linear(x) else trace.new_input(v.aval)
                for v, x in zip(binders[:n], self.consts, strict=True)
            ]
            before = [
                trace.new_input(a.tangent()) if nz else Zero(a)
                for a, nz in zip(self.avals, nonzero, strict=True)
            ]
            ys = [
                trace.new_input(x.aval.tangent()) if nz else Zero(x.aval)
                for x, nz in zip(jaxpr.outs[k:], self.ys_nonzero, strict=True)
            ]
            carry_args = [UndefPrimal(v.aval.strong) for v in binders[n : n + k]]
            xs_args = [
                UndefPrimal(v.aval.strong) if is_linear(x) else trace.new_input(v.aval)
                for v, x in zip(binders[n + k :], self.xs, strict=True)
            ]
            args = [*known_consts, *const_args, *carry_args, *xs_args]
            out = backward_pass(jaxpr, args, [*before[self.n_const :], *ys])
            const_cts, carry_cts, xs_cts = split_list(out, self.n_const, k)
            sums = [
                add_tangents(a, b) for a, b in zip(before[: self.n_const], const_cts, strict=True)
            ]
            after = [*sums, *carry_cts]
            flags = [type(ct) is not Zero for ct in after]
            xs_flags = [type(ct) is not Zero for ct in xs_cts]
            kept = [instantiate(ct) for ct, nz in zip(after, nonzero, strict=True) if nz]
            results = [*kept, *[ct for ct in xs_cts if type(ct) is not Zero]]
        built = trace.build(results)
        small, _ = dce_jaxpr(built.jaxpr, keep_inputs=True)
        return prune_consts(ClosedJaxpr(small, built.consts)), flags, xs_flags


def _transpose_after_split(
    cts: Any, args: Sequence[Any], linear: Sequence[bool], params: dict[str, Any]
) -> list[Any]:
    """Transposition when a part of the carry is not linear: run it forward, transpose the rest."""
    cut = _split_scan(linear, args, params, lambda f, *xs: f(*xs))
    n_carry = params["num_carry"]
    carry_cts = [ct for ct, u in zip(cts[:n_carry], cut.unks_out[:n_carry], strict=True) if u]
    ys_cts = [ct for ct, u in zip(cts[n_carry:], cut.unks_out[n_carry:], strict=True) if u]
    fields = _fields(cut.closed, len(cut.consts), len(cut.carry), params)
    operands = [*cut.consts, *cut.carry, *cut.xs]
    out = _transpose([*carry_cts, *ys_cts], *operands, **fields)
    linear_cts = iter([ct for ct, x in zip(out, operands, strict=True) if is_linear(x)])
    return [next(linear_cts) if lin else None for lin in linear]


# -- dead code, lowering -----------------------------------------------------------------------


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Drop ys nobody reads, parts of the carry that nothing needs, and operands nobody reads then."""
    params = eqn.params
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    used_carry, used_ys = list(used_outs[:n_carry]), list(used_outs[n_carry:])

    def needed(carry: list[bool]) -> list[bool]:
        used = dce_jaxpr(closed.jaxpr, [*carry, *used_ys])[1]
        return used[n_consts : n_consts + n_carry]

    carried = fixpoint(needed, used_carry)
    outs_kept = [*carried, *used_ys]
    used_ins = dce_jaxpr(closed.jaxpr, outs_kept)[1]
    used_ins[n_consts : n_consts + n_carry] = carried
    if all(used_ins) and all(outs_kept):
        return eqn, used_ins
    body, _ = dce_jaxpr(closed.jaxpr, outs_kept, keep_inputs=True)
    keep = [i for i, u in enumerate(used_ins) if u]
    small = prune_consts(pick(ClosedJaxpr(body, closed.consts), keep))
    fields = _fields(small, sum(used_ins[:n_consts]), sum(carried), params)
    inputs = [x for x, u in zip(eqn.inputs, used_ins, strict=True) if u]
    outs = [v for v, u in zip(eqn.out_binders, outs_kept, strict=True) if u]
    return eqn.replace(inputs=inputs, out_binders=outs, params=fields), used_ins


def _lower(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
    """A stablehlo.while over a counter, the carry, and the ys so far, which are updated in place."""
    closed, length, reverse = params["jaxpr"], params["length"], params["reverse"]
    consts, carry, xs = _split(operands, params)
    counter = ShapedArray((), INT32)
    ys_avals = [_stacked(a.physical, length) for a in closed.out_avals[len(carry) :]]
    ys = [ctx.constant(False if a.dtype.kind == "b" else 0, a) for a in ys_avals]
    if length == 0:
        return [*carry, *ys]
    state = [ctx.constant(0, counter), *carry, *ys]

    def holds(i: Any, *_: Any) -> list[Any]:
        return [ctx.compare("LT", i, ctx.constant(length, counter))]

    def step(i: Any, *rest: Any) -> list[Any]:
        now, so_far = split_list(rest, len(carry))
        at = i
        if reverse:
            at = ctx.op("subtract", ctx.constant(length - 1, counter), i, out=counter)
        slices = [_slice_at(ctx, x, at) for x in xs]
        outs = ctx.inline(closed, [*consts, *now, *slices])
        new, parts = split_list(outs, len(carry))
        written = [_write_at(ctx, y, part, at) for y, part in zip(so_far, parts, strict=True)]
        return [ctx.op("add", i, ctx.constant(1, counter), out=counter), *new, *written]

    return ctx.loop(state, holds, step, None, closed)[1:]


def _slice_at(ctx: Any, x: Any, i: Any) -> Any:
    shape = x.aval.shape
    zero = ctx.constant(0, i.aval)
    sizes = (1, *shape[1:])
    out = x.aval.update(shape=sizes)
    starts = [i, *[zero] * (len(shape) - 1)]
    part = ctx.op("dynamic_slice", x, *starts, out=out, slice_sizes=sizes)
    return ctx.reshape(part, shape[1:])


def _write_at(ctx: Any, y: Any, part: Any, i: Any) -> Any:
    zero = ctx.constant(0, i.aval)
    starts = [i, *[zero] * (len(y.aval.shape) - 1)]
    row = ctx.reshape(part, (1, *part.aval.shape))
    return ctx.op("dynamic_update_slice", y, row, *starts, out=y.aval)


def _cost(ins: Any, outs: Any, *, jaxpr: ClosedJaxpr, length: int, **_: Any) -> Cost:
    once = cost_jaxpr(jaxpr)
    return Cost(once.flops * length, once.bytes * length)


define(
    lax.scan_call,
    abstract_eval=_types,
    impl=_Impl(),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=_cost,
    partial_eval=_partial_eval,
    dce=_dce,
)
