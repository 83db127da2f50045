"""The row of `shard_map`: a function applied to the shards of its operands.

Rules transform the body with the axes of the mesh in scope, and add the specs of new operands and
results. For evaluation on NumPy the body is batched over all devices, which applies the batch rules
of the collectives, and then evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, bound_axes
from jaxprtool.core.partition import merge_lists, partition_list, split_list, spread
from jaxprtool.core.policies import Saves
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import Cost, cost_jaxpr
from jaxprtool.interpreters.dce import dce_jaxpr, prune_consts
from jaxprtool.interpreters.discharge import pure
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.evaluation.observe import runs_as, runs_for_devices
from jaxprtool.interpreters.jvp import Zero, fill_zeros, jvp_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from jaxprtool.interpreters.remat import Saving, split_saving
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass, is_linear
from jaxprtool.ir.avals import NO_GROUPS, AxisGroups
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.makers.calls import prepared_impl
from jaxprtool.rules.control_flow.loops import pick
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.lowering import manual_computation
from jaxprtool.rules.parallel.reductions import sum_along
from jaxprtool.rules.parallel.shard_layout import Layout, Split, with_specs
from jaxprtool.rules.parallel.shards import join_shards, split_shards

__all__: list[str] = []


# -- types -------------------------------------------------------------------------------------


def _types(*operands: Aval, **params: ParamValue) -> list[Aval]:
    closed = params["jaxpr"]
    if not isinstance(closed, ClosedJaxpr):
        ill_typed(f"shard_map: the param jaxpr is not a jaxpr: {closed}", "bad-param")
    layout = Layout(params)
    counts = (len(operands), len(layout.ins), len(closed.in_avals))
    if len(set(counts)) > 1:
        message = (
            f"shard_map: {counted(counts[0], 'operand')}, {counted(counts[1], 'spec')} in in_specs, "
            f"and a jaxpr of {counted(counts[2], 'argument')}"
        )
        ill_typed(message, "argument-count")
    if len(layout.outs) != len(closed.out_avals):
        n, m = len(layout.outs), len(closed.out_avals)
        ill_typed(
            f"shard_map: {n} out_specs, and a jaxpr of {counted(m, 'result')}", "argument-count"
        )
    for i, (x, split, binder) in enumerate(zip(operands, layout.ins, closed.in_avals, strict=True)):
        try:
            local = layout.shard(x, split)
        except ValueError as e:
            ill_typed(f"shard_map: operand {i} is {x}, which in_specs cannot split: {e}", "spec")
        has, wants = (_sums_of(g, layout) for g in (getattr(x, "vary", NO_GROUPS), split.sums))
        if any(has) and has != wants:
            ill_typed(
                f"shard_map: operand {i} is {x}, and its in_spec says something else of what is to be summed, or was",
                "spec",
            )
        if _plain(local) != _plain(binder):
            ill_typed(
                f"shard_map: a shard of operand {i}, {x}, is {local}, and the jaxpr takes {binder} there",
                "argument-type",
            )
    pairs = zip(closed.out_avals, layout.outs, strict=True)
    return [_whole(layout, i, a, split) for i, (a, split) in enumerate(pairs)]


def _sums_of(groups: AxisGroups, layout: Layout) -> list[frozenset[str]]:
    """Return the axes of the body over which a value is unreduced, and those over which it is
    reduced.
    """
    return [frozenset(g).intersection(layout.names) for g in (groups.unreduced, groups.reduced)]


def _plain(aval: Aval) -> tuple:
    """Return the parts of a shard's type that must equal those of the body's binder: shape, dtype and varying axes."""
    return aval.shape, aval.dtype, frozenset(varying_axes(aval))


def _whole(layout: Layout, i: int, aval: Aval, split: Split) -> Value:
    sums = split.sums
    left = [n for n in layout.unmentioned(split) if n in varying_axes(aval)]
    if layout.tracked and left:
        ill_typed(
            f"shard_map: result {i} varies along {', '.join(left)} ({aval}), which its out_spec does not mention",
            "not-replicated",
            help="reduce it with psum_invariant, or let the out_spec mention the axis",
        )
    if layout.tracked:
        _check_sums(layout, i, aval, sums)
    try:
        return layout.unshard(aval, split)
    except ValueError as e:
        ill_typed(f"shard_map: result {i} is {aval}, which out_specs cannot join: {e}", "spec")


def _check_sums(layout: Layout, i: int, aval: Aval, sums: AxisGroups) -> None:
    """Raise a type error for a result that is unreduced over axes, while its out_spec does not say the same."""
    vary = getattr(aval, "vary", NO_GROUPS)
    parts = [n for n in vary.unreduced if n in layout.names and n not in sums.unreduced]
    if parts:
        ill_typed(
            f"shard_map: result {i} is still to be summed over {', '.join(parts)} ({aval}), and its out_spec does not say so",
            "not-replicated",
            help="sum it with psum, or let the out_spec have the axis in unreduced",
        )
    if vary.kind not in ("", sums.kind):  # JAX's types inside a shard_map do not have the kind
        ill_typed(
            f"shard_map: result {i}, {aval}, and its out_spec take different things of their parts",
            "not-replicated",
        )


# -- evaluation on NumPy -------------------------------------------------------------------------


@prepared_impl
def _impl(xp: Namespace, **params: Any) -> Callable[..., Value]:
    """Run the body once, batched over the devices."""
    layout = Layout(params)
    with layout.scope():
        body = pure(params["jaxpr"])
    dims = [0 if split.differs else None for split in layout.ins]
    with bound_axes(layout.sizes):
        batched, out_dims = vmap_jaxpr(body, NamedAxis(layout.sizes, each=True), dims, None)
    runs_for_devices(runs_as(params["jaxpr"].jaxpr, batched.jaxpr), (*layout.sizes.items(),))
    step = runner(batched)

    def run(*operands: Value) -> list[Value]:
        shards = [
            x if d is None else split_shards(xp, x, split, layout.sizes)
            for x, split, d in zip(operands, layout.ins, dims, strict=True)
        ]
        return [
            join_shards(xp, y, d, split, layout.sizes)
            for y, d, split in zip(step(shards), out_dims, layout.outs, strict=True)
        ]

    return run


# -- jvp, vmap, transposition --------------------------------------------------------------------


def _jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    layout = Layout(params)
    nonzeros = [type(t) is not Zero for t in tangents]
    with layout.scope():
        transformed, flags = jvp_jaxpr(params["jaxpr"], nonzeros, instantiate_outs=False)
    live = [t for t in tangents if type(t) is not Zero]
    ins = [*layout.ins, *_chosen(nonzeros, layout.ins)]
    out_specs = [*layout.outs, *_chosen(flags, layout.outs)]
    outs = lax.shard_map(*primals, *live, **with_specs(params, transformed, ins, out_specs))
    primals_out, live_out = split_list(outs, len(flags))
    return primals_out, fill_zeros(flags, live_out, map(get_aval, primals_out))


def _chosen(flags: Sequence[bool], xs: Sequence[Value]) -> list[Value]:
    return [x for f, x in zip(flags, xs, strict=True) if f]


def _batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    layout = Layout(params)
    with layout.scope():
        batched, out_dims = vmap_jaxpr(params["jaxpr"], axis_size, dims, None)
    ins = [s.batched(d) for s, d in zip(layout.ins, dims, strict=True)]
    outs = [s.batched(d) for s, d in zip(layout.outs, out_dims, strict=True)]
    return lax.shard_map(*vals, **with_specs(params, batched, ins, outs)), out_dims


def _transpose(cts: Value, *args: Value, **params: Any) -> list[Any]:
    """Transpose the body.

    Cotangents of operands are summed over the mesh axes that their specs do not mention.

    Without `check_vma`, a result whose spec does not mention an axis may have been computed
    separately on each device along it. Each device then gets an equal share of its cotangent, and
    the shares of an operand's cotangent are summed.
    """
    layout, body = Layout(params), params["jaxpr"]
    linear, nonzero = [is_linear(x) for x in args], [type(ct) is not Zero for ct in cts]
    live = [
        ct if layout.tracked else _share(ct, layout.count(layout.unmentioned(split.dual)))
        for ct, split in zip(cts, layout.outs, strict=True)
        if type(ct) is not Zero
    ]
    ct_specs = [s.dual for s in _chosen(nonzero, layout.outs)]
    known_specs, linear_specs = partition_list(linear, layout.ins)
    flags: list[bool] = []

    def transposed(*operands: Value) -> list[Any]:
        known, local = split_list(operands, len(known_specs))
        undef = [UndefPrimal(a.strong) for a in _chosen(linear, body.in_avals)]
        ins = merge_lists(linear, known, undef)
        fitted = map(_fitted, local, _chosen(nonzero, body.out_avals))
        outs = fill_zeros(nonzero, fitted, body.out_avals)
        found = backward_pass(body.jaxpr, [*body.const_operands, *ins], outs)
        flags[:] = [type(ct) is not Zero for ct in found]
        return [
            ct if layout.tracked else sum_along(ct, layout.unmentioned(split.dual))
            for ct, split in zip(found, linear_specs, strict=True)
            if type(ct) is not Zero
        ]

    known = [x for x in args if not is_linear(x)]
    with layout.scope():
        known_avals, _ = partition_list(linear, body.in_avals)
        ct_avals = [layout.shard(get_aval(x), s) for x, s in zip(live, ct_specs, strict=True)]
        closed = stage(transposed, [*known_avals, *ct_avals])
    specs = [s.dual for s in _chosen(flags, linear_specs)]
    fields = with_specs(params, closed, [*known_specs, *ct_specs], specs)
    outs = lax.shard_map(*known, *live, **fields) if any(flags) else []
    linear_avals = [x.aval for x in args if is_linear(x)]
    return spread(linear, fill_zeros(flags, outs, linear_avals))


def _share(ct: Value, n: int) -> Value:
    return ct if n == 1 else lax.div(ct, scalar_lit(n, get_aval(ct).dtype))


def _fitted(ct: Value, aval: Aval) -> Value:
    """Sum a cotangent over the axes along which it varies but the result does not."""
    extra = [n for n in varying_axes(get_aval(ct)) if n not in varying_axes(aval)]
    return sum_along(ct, extra)


# -- partial evaluation --------------------------------------------------------------------------


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Value], **params: Any) -> list[Value]:
    """The partial_eval rule: split the body into two shard_maps, for its known and its unknown
    part.

    A residual that is an operand or a known result is taken from there. Any other is returned with
    the shards concatenated along its first axis; a scalar that differs between devices gets an axis
    for that.
    """
    layout = Layout(params)
    unks = [trace.is_unknown(x) for x in args]
    known_specs, unknown_specs = partition_list(unks, layout.ins)
    known_args, unknown_args = partition_list(unks, args)
    with layout.scope():
        known, unknown, unks_out, n_res = partial_eval_jaxpr(params["jaxpr"], unks)
        out_specs, unknown_out_specs = partition_list(unks_out, layout.outs)
        plan = _Residuals(layout, known, n_res, known_specs, out_specs)
        first, second = plan.first(), plan.second(unknown)
        unknown_avals = [
            layout.unshard(a, s) for a, s in zip(second.out_avals, unknown_out_specs, strict=True)
        ]
    outs: list[Any] = []
    if first.jaxpr.outs:
        specs = [*out_specs, *plan.new_specs]
        with layout.scope():
            small, used = dce_jaxpr(first.jaxpr)
            pruned = prune_consts(ClosedJaxpr(small, first.consts))
        fields = with_specs(
            params,
            pruned,
            _chosen(used, known_specs),
            specs,
        )
        outs = trace.known(lax.shard_map, *_chosen(used, known_args), **fields)
    known_outs, new = split_list(outs, len(out_specs))
    residuals = plan.collect(known_args, known_outs, new)
    fields = with_specs(params, second, [*plan.specs(), *unknown_specs], unknown_out_specs)
    atoms = [trace.atom(x) for x in (*residuals, *unknown_args)]
    emitted = []
    if unknown_avals:
        emitted = trace.emit(lax.shard_map.primitive, atoms, fields, unknown_avals)
    return merge_lists(unks_out, known_outs, emitted)


class _Residuals:
    """The residuals of a split body: where each comes from, and the two parts that return and take
    them.

    Attributes:
      sources: for each residual ("argument", i), ("result", i) or ("new", i).
      new_specs: how the new ones are split.
      new_outs: the positions of the new ones among the results of the known part.
      lifted: for each of the new ones whether it is a scalar that gets an axis.
    """

    def __init__(
        self,
        layout: Layout,
        known: ClosedJaxpr,
        n_res: int,
        in_specs: Sequence[Split],
        out_specs: Sequence[Split],
    ):
        self.known, self.in_specs, self.out_specs = known, in_specs, out_specs
        outs, residuals = split_list(known.jaxpr.outs, len(known.jaxpr.outs) - n_res)
        arguments = {v: i for i, v in enumerate(known.jaxpr.in_binders)}
        results = {x: i for i, x in reversed(list(enumerate(outs)))}
        self.sources: list[tuple[str, int]] = []
        self.new_specs: list[Split] = []
        self.lifted: list[bool] = []
        self.new_outs: list[int] = []
        for k, x in enumerate(residuals, len(outs)):
            if x in arguments:
                self.sources.append(("argument", arguments[x]))
            elif x in results and not layout.unmentioned(out_specs[results[x]]):
                self.sources.append(("result", results[x]))
            else:
                split = layout.residual(x.aval)
                self.sources.append(("new", len(self.new_outs)))
                self.new_outs.append(k)
                self.new_specs.append(split)
                self.lifted.append(bool(split.spec) and not x.aval.shape)

    def first(self) -> ClosedJaxpr:
        """Return the first part: known arguments -> (known results, new residuals)."""
        n = len(self.out_specs)
        small = pick(self.known, range(len(self.known.in_avals)), [*range(n), *self.new_outs])
        if not any(self.lifted):
            return small

        def lifting(*args: Value) -> list[Value]:
            outs, new = split_list(apply_jaxpr(small, args), n)
            return [
                *outs,
                *[
                    lax.broadcast_in_dim(x, shape=(1,)) if f else x
                    for f, x in zip(self.lifted, new, strict=True)
                ],
            ]

        return stage(lifting, small.in_avals)

    def second(self, unknown: ClosedJaxpr) -> ClosedJaxpr:
        """Return the second part: (residuals, unknown arguments) -> unknown results."""
        lifted = [kind == "new" and self.lifted[i] for kind, i in self.sources]
        if not any(lifted):
            return unknown
        avals = [
            a.update(shape=(1,)) if f else a for f, a in zip(lifted, unknown.in_avals, strict=False)
        ]

        def lowering(*args: Value) -> list[Value]:
            residuals, rest = split_list(args, len(lifted))
            plain = [
                lax.squeeze(x, dimensions=(0,)) if f else x
                for f, x in zip(lifted, residuals, strict=True)
            ]
            return apply_jaxpr(unknown, [*plain, *rest])

        return stage(lowering, [*avals, *unknown.in_avals[len(lifted) :]])

    def collect(
        self, args: Sequence[Value], outs: Sequence[Value], new: Sequence[Value]
    ) -> list[Value]:
        """Return all residuals in order, from the operands, the known results and the new residuals."""
        values = {"argument": args, "result": outs, "new": new}
        return [values[k][i] for k, i in self.sources]

    def specs(self) -> list[Split]:
        """Return how each residual is split."""
        return self.collect(self.in_specs, self.out_specs, self.new_specs)


def _saving(eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
    """The saving rule.

    Values of the body that the policy saves are returned in the same form as residuals.
    """
    params, layout = eqn.params, Layout(eqn.params)
    known_specs, _ = partition_list(unks, layout.ins)
    with layout.scope():
        cut = split_saving(params["jaxpr"], unks, saves)
        if not cut.n_saved:
            return None
        out_specs, _ = partition_list(cut.unks_out, layout.outs)
        plan = _Residuals(layout, cut.known, cut.n_saved, known_specs, out_specs)
        first, second = plan.first(), plan.second(cut.again)

    def known(*args: Value) -> list[Value]:
        fields = with_specs(params, first, known_specs, [*out_specs, *plan.new_specs])
        outs, new = split_list(lax.shard_map(*args, **fields), len(out_specs))
        return [*outs, *plan.collect(args, outs, new)]

    def again(*args: Value) -> list[Value]:
        specs = [*plan.specs(), *layout.ins]
        return lax.shard_map(*args, **with_specs(params, second, specs, layout.outs))

    avals = [x.aval.strong for x in eqn.inputs]
    staged = stage(known, partition_list(unks, avals)[0])
    saved = staged.out_avals[len(out_specs) :]
    return Saving(staged, stage(again, [*saved, *avals]), cut.unks_out)


# -- dead code, lowering, cost -------------------------------------------------------------------


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    layout, closed = Layout(eqn.params), eqn.params["jaxpr"]
    with layout.scope():
        jaxpr, used_ins = dce_jaxpr(closed.jaxpr, used_outs)
        small = prune_consts(ClosedJaxpr(jaxpr, closed.consts))
    if all(used_ins) and all(used_outs) and len(jaxpr.eqns) == len(closed.eqns):
        return eqn, used_ins
    ins, outs = _chosen(used_ins, layout.ins), _chosen(used_outs, layout.outs)
    smaller = eqn.replace(
        inputs=_chosen(used_ins, eqn.inputs),
        out_binders=_chosen(used_outs, eqn.out_binders),
        params=with_specs(eqn.params, small, ins, outs),
    )
    return smaller, used_ins


def _lower(ctx: Value, *operands: Value, **params: Any) -> list[Any]:
    layout, closed = Layout(params), params["jaxpr"]
    outs = [a.physical for a in ctx.out_avals]
    write = manual_computation(
        ctx, layout.mesh, layout.names, operands, layout.ins, layout.outs, outs
    )
    shards = [a.physical for a in closed.in_avals]
    return write(lambda *args: ctx.inline(closed, args), shards)


def _cost(ins: Value, outs: Value, **params: Any) -> Cost:
    """The cost rule: the cost of the body times the number of devices."""
    return cost_jaxpr(params["jaxpr"]) * Layout(params).count(Layout(params).names)


def _runs(params: dict[str, Any]) -> list[Run]:
    """Return one run of the body for each device."""
    devices = Layout(params).count(Layout(params).names)
    return [Run("jaxpr", params["jaxpr"], devices, devices=devices)]


def _discharge(*operands: Value, **params: Any) -> list[Value]:
    with Layout(params).scope():
        body = pure(params["jaxpr"])
    return lax.shard_map(*operands, **{**params, "jaxpr": body})


define(
    lax.shard_map,
    abstract_eval=_types,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=_cost,
    runs=_runs,
    partial_eval=_partial_eval,
    saving=_saving,
    dce=_dce,
    discharge=_discharge,
)
