"""The row of `cond`, and the Python functions `cond` and `switch`.

A rule transforms all branches, then gives them the same results: if one branch has a tangent, batch
axis, residual or cotangent at some position, the other branches get one there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import are_devices
from jaxprtool.core.bind import state
from jaxprtool.core.partition import merge_lists, partition_list, split_list, spread, unzip2
from jaxprtool.core.policies import Saves
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.batch import materialize, moveaxis, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed, verified
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import cost_jaxpr, maximum_cost
from jaxprtool.interpreters.dce import dce_body, live_atoms, rebound
from jaxprtool.interpreters.evaluation.observe import (
    devices_stand,
    runs_unseen,
    standing_in,
    take_branch,
)
from jaxprtool.interpreters.jvp import Zero, fill_zeros, jvp_jaxpr, zeros
from jaxprtool.interpreters.linearize import linearize_body
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from jaxprtool.interpreters.remat import Saving, split_saving, without_known
from jaxprtool.interpreters.reuse.copies import once
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import argument_names, flatten_fun, stage
from jaxprtool.interpreters.transpose import is_linear, not_linear, transpose_jaxpr
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ir.jaxpr import Atom, Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Value, Var, type_of
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.mapped_calls import by_devices
from jaxprtool.rules.control_flow.discharging import discharge_cond
from jaxprtool.rules.control_flow.loops import narrowed
from jaxprtool.rules.define import define
from jaxprtool.rules.wrappers import platform_position

__all__ = ["cond", "switch"]

Branches = tuple[ClosedJaxpr, ...]
Part = tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]  # known, unknown, which is which, residuals
Plan = list[
    int
]  # where the residuals of a branch are: slot k, or ~i for the known part's argument i


def _types(index: Aval, *operands: Aval, branches: ParamValue, **_: ParamValue) -> list[Aval]:
    if not isinstance(branches, tuple) or not branches:
        ill_typed(f"cond: the param branches is no tuple of jaxprs: {branches}", "bad-param")
    if index.shape or index.dtype not in (INT32, BOOL):
        ill_typed(f"cond: the index is {index}; i32[] or bool[] is needed", "cond-index")
    if index.dtype is BOOL and len(branches) != 2:
        ill_typed(f"cond: a boolean chooses between 2 branches, not {len(branches)}", "cond-index")
    first = check_call("cond: branch 0", branches[0], operands, "branches")
    for i, branch in enumerate(branches[1:], 1):
        types = check_call(f"cond: branch {i}", branch, operands, "branches")
        if types != first:
            _branches_differ(i, first, types)
    return first


def _branches_differ(i: int, first: Sequence[Value], types: Sequence[Value]) -> None:
    if len(types) != len(first):
        message = (
            f"cond: branch 0 has {counted(len(first), 'result')}, and branch {i} has {len(types)}"
        )
    else:
        k = next(k for k, (a, b) in enumerate(zip(first, types, strict=True)) if a is not b)
        message = f"cond: result {k} is {first[k]} in branch 0, and {types[k]} in branch {i}"
    ill_typed(message, "branch-type")


def _choose(
    xp: Namespace, index: Value, *operands: Value, branches: Branches, **_: ParamValue
) -> list[Value]:
    i = int(index)
    taken = take_branch(i if 0 <= i < len(branches) else len(branches) - 1)
    return xp.run(branches[taken], operands)


def _apply_cond(
    index: Value, operands: Sequence[Value], branches: Branches, params: dict[str, ParamValue]
) -> list[Value]:
    """Bind `cond` with transformed branches, whose arguments have the types of the operands."""
    avals = [*map(type_of, branches[0].jaxpr.outs)]
    fields = {**params, "branches": branches}
    return state.trace.process_typed(lax.cond_call.primitive, [index, *operands], fields, avals)


def _jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, branches: Branches, **params: ParamValue
) -> PrimalAndTangent:
    index, *operands = primals
    nonzeros = [type(t) is not Zero for t in tangents[1:]]
    each = [jvp_jaxpr(b, nonzeros, instantiate_outs=False)[1] for b in branches]
    flags = [any(f) for f in zip(*each, strict=True)]
    transformed = tuple(jvp_jaxpr(b, nonzeros, instantiate_outs=flags)[0] for b in branches)
    live = [t for t in tangents[1:] if type(t) is not Zero]
    outs = _apply_cond(index, [*operands, *live], transformed, params)
    primals_out, live_out = split_list(outs, len(flags))
    return primals_out, fill_zeros(flags, live_out, map(get_aval, primals_out))


def _batch(
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    branches: Branches,
    **params: ParamValue,
) -> OutAndDim:
    (index, *operands), (index_dim, *in_dims) = vals, dims
    if index_dim is not None:
        fields = {**params, "branches": branches}
        call = lax.cond_call.primitive
        apart = by_devices(call, _batch, axis_size, vals, dims, fields, ["branches"])
        if apart is not None:
            return apart
        if are_devices(axis_size):
            return _batch_agreed(axis_size, index, operands, in_dims, branches, params)
        return _batch_by_select(axis_size, index, operands, in_dims, branches)
    operands = [
        x if d is None else moveaxis(x, d, 0) for x, d in zip(operands, in_dims, strict=True)
    ]
    in_dims = [None if d is None else 0 for d in in_dims]  # moved once, not in each branch
    each = [vmap_jaxpr(b, axis_size, in_dims, None)[1] for b in branches]
    out_dims = [0 if any(d is not None for d in ds) else None for ds in zip(*each, strict=True)]
    batched = tuple(vmap_jaxpr(b, axis_size, in_dims, out_dims)[0] for b in branches)
    return _apply_cond(index, operands, batched, params), out_dims


def _batch_agreed(
    axis_size: int,
    index: Value,
    operands: Sequence[Value],
    in_dims: Any,
    branches: Branches,
    params: dict[str, ParamValue],
) -> tuple[list[Value], list[int | None]]:
    """The batch rule for branches in which devices exchange values.

    Where all devices take the same branch, only that one runs.
    """
    moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(operands, in_dims, strict=True)]
    in_dims = [None if d is None else 0 for d in in_dims]

    def apart(index: Value, *operands: Value) -> list[Value]:
        outs, out_dims = _batch_by_select(axis_size, index, operands, in_dims, branches)
        return [materialize(x, d, axis_size) for x, d in zip(outs, out_dims, strict=True)]

    unlike = stage(apart, [get_aval(x).strong for x in (index, *moved)])
    runs_unseen(unlike.jaxpr)
    alike = [_with_index(vmap_jaxpr(b, axis_size, in_dims, 0)[0], index) for b in branches]
    outs = _apply_cond(_agreed(index, len(branches)), [index, *moved], (*alike, unlike), params)
    return outs, [0] * len(outs)


def _with_index(closed: ClosedJaxpr, index: Value) -> ClosedJaxpr:
    """Return a batched branch with the devices' indices as a further first argument, which it does
    not use.
    """
    jaxpr = closed.jaxpr
    unread = Var(get_aval(index).strong)
    made = jaxpr.replace(in_binders=(unread, *jaxpr.in_binders))
    standing = standing_in(jaxpr)
    if standing is not None:
        devices_stand(made, standing.axes)
    return ClosedJaxpr(made, closed.consts)


def _agreed(index: Value, n: int) -> Value:
    """Return the index of the branch that all devices take, out of n branches; n if they take
    different ones.
    """
    if get_aval(index).dtype is BOOL:
        index = lax.convert_element_type(index, new_dtype=INT32, weak_type=False, sharding=None)
    is_branch = lax.and_(lax.ge(index, 0), lax.lt(index, n))
    last = lax.broadcast_in_dim(scalar_lit(n - 1, INT32), shape=get_aval(index).shape)
    index = lax.select_n(is_branch, last, index)
    first, highest = lax.reduce_min(index, axes=(0,)), lax.reduce_max(index, axes=(0,))
    return lax.select_n(lax.eq(first, highest), scalar_lit(n, INT32), first)


def _batch_by_select(
    axis_size: int, index: Value, operands: Sequence[Value], in_dims: Any, branches: Branches
) -> tuple[list[Value], list[int | None]]:
    """The batch rule where each example has its own index: run all branches, and choose between
    their results with `select_n`.
    """
    if all(d is None for d in in_dims):
        results = [apply_jaxpr(b, operands) for b in branches]
        out_dims: list[int | None] = [None] * len(results[0])
    else:
        batched = [vmap_jaxpr(b, axis_size, in_dims, 0) for b in branches]
        results = [apply_jaxpr(c, operands, b) for (c, _), b in zip(batched, branches, strict=True)]
        out_dims = batched[0][1]
    if len(branches) == 1:
        return results[0], out_dims
    if len(branches) == 2 and get_aval(index).dtype is not BOOL:
        index = lax.ne(index, 0)
    outs = []
    for k, d in enumerate(out_dims):
        cases = [materialize(r[k], d, axis_size) for r in results]
        shape = get_aval(cases[0]).shape
        which = index
        if len(shape) > 1:
            which = lax.broadcast_in_dim(index, shape=shape, broadcast_dimensions=(0,))
        outs.append(lax.select_n(which, *cases))
    return outs, [0] * len(outs)


def _transpose(
    cts: Sequence[Value], index: Value, *operands: Value, branches: Branches, **params: ParamValue
) -> Value:
    if is_linear(index):
        not_linear("cond", "the index is among them")
    linear = [is_linear(x) for x in operands]
    nonzero = [type(ct) is not Zero for ct in cts]
    each = [transpose_jaxpr(b, linear, nonzero, instantiate_cts=False)[1] for b in branches]
    flags = [any(f) for f in zip(*each, strict=True)]
    transposed = tuple(
        transpose_jaxpr(b, linear, nonzero, instantiate_cts=flags)[0] for b in branches
    )
    known = [x for x in operands if not is_linear(x)]
    live = [ct for ct in cts if type(ct) is not Zero]
    outs = _apply_cond(index, [*known, *live], transposed, params)
    linear_avals = [x.aval for x in operands if is_linear(x)]
    return [None, *spread(linear, fill_zeros(flags, outs, linear_avals))]


# -- partial evaluation ------------------------------------------------------------------------


def _partial_eval(
    trace: PartialEvalTrace, args: Sequence[Value], *, branches: Branches, **params: ParamValue
) -> list[Value]:
    """Split the branches when the index is known; record the whole equation when it is not.

    Branches have different residuals, and share slots by type: a branch fills the slots that it
    needs, and puts zeros into the others. A residual that is an argument of the branch takes a slot
    that another branch needs anyway; if there is none, it is passed on from the operands.
    """
    index, *operands = args
    if trace.is_unknown(index):
        atoms = trace.atoms(args)
        avals = [*map(type_of, branches[0].jaxpr.outs)]
        fields = {**params, "branches": branches}
        return trace.emit(lax.cond_call.primitive, atoms, fields, avals)
    unks = [trace.is_unknown(x) for x in operands]
    each = [partial_eval_jaxpr(b, unks)[2] for b in branches]
    unks_out = [any(u) for u in zip(*each, strict=True)]
    parts = [partial_eval_jaxpr(b, unks, unks_out) for b in branches]
    known_ops, unknown_ops = partition_list(unks, operands)
    known_outs, unknown_outs = _apply_parts(trace, parts, index, known_ops, unknown_ops, params)
    return merge_lists(unks_out, known_outs, unknown_outs)


def _apply_parts(
    trace: PartialEvalTrace,
    parts: Sequence[Part],
    index: Value,
    known_ops: Sequence[Value],
    unknown_ops: Sequence[Value],
    params: dict[str, ParamValue],
) -> tuple[list[Value], list[Value]]:
    """Apply the known parts of the branches, and record the unknown ones.

    Return the known results and the unknown ones.
    """
    known, unknown, slots, forwarded = _join_residuals(parts)
    n_known = len(known[0].jaxpr.outs) - len(slots)
    outs: list[Any] = []
    if n_known or slots:
        outs = trace.known(_apply_cond, index, known_ops, known, params)
    known_outs, residuals = split_list(outs, n_known)
    avals = [*map(type_of, unknown[0].jaxpr.outs)]
    if not avals:
        return known_outs, []
    inputs = [index, *residuals, *[known_ops[i] for i in forwarded], *unknown_ops]
    atoms, fields = trace.atoms(inputs), {**params, "branches": unknown}
    return known_outs, trace.emit(lax.cond_call.primitive, atoms, fields, avals)


def _linearize(
    trace: PartialEvalTrace,
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    branches: Branches,
    **params: ParamValue,
) -> tuple[list[Value], list[Value]]:
    index, *operands = primals
    nonzeros = [type(t) is not Zero for t in tangents[1:]]
    none = [False] * len(branches[0].jaxpr.outs)
    each = [linearize_body(b, nonzeros, none).flags for b in branches]
    flags = [any(f) for f in zip(*each, strict=True)]
    parts = [linearize_body(b, nonzeros, flags) for b in branches]
    live = [t for t in tangents[1:] if type(t) is not Zero]
    outs, out_tangents = _apply_parts(trace, parts, index, operands, live, params)
    return outs, fill_zeros(flags, out_tangents, map(get_aval, outs))


def _join_residuals(
    parts: Sequence[Part],
) -> tuple[Branches, Branches, list[Value], list[int]]:
    """Give the parts of all branches the same residuals. The result is memoised for the same parts.

    Returns:
      The known parts: (known arguments) -> (known results, slots).
      The unknown parts: (slots, forwarded arguments, unknown arguments) -> (unknown results).
      The types of the slots.
      The indices of the forwarded arguments among the known ones.
    """
    key = tuple([(known, unknown) for known, unknown, _, _ in parts])
    return _JOINED.of(parts[0][0], key, lambda: _joined(parts))


_JOINED = MemoTable[tuple[Branches, Branches, list[Any], list[int]]]("branches joined")


def _joined(parts: Sequence[Part]) -> tuple[Branches, Branches, list[Value], list[int]]:
    slots: list[Any] = []
    plans: list[Plan] = []
    for known, _, _, n_res in parts:
        outs = known.jaxpr.outs
        arguments: dict[Atom, int] = {v: ~i for i, v in enumerate(known.jaxpr.in_binders)}
        plan: Plan = []
        for x in outs[len(outs) - n_res :]:
            place = arguments.get(x)
            if place is None:
                place = _free_slot(slots, plan, x.aval.strong)
                if place == len(slots):
                    slots.append(x.aval.strong)
            plan.append(place)
        plans.append(plan)
    binders = parts[0][0].jaxpr.in_binders
    forwarded = [
        i
        for i in dict.fromkeys([~place for plan in plans for place in plan if place < 0])
        if not _put_in_slots(i, binders[i].aval.strong, plans, slots)
    ]
    knowns = tuple(
        _fill_slots(known, plan, slots) for (known, _, _, _), plan in zip(parts, plans, strict=True)
    )
    unknowns = tuple(
        _take_slots(unknown, binders, plan, slots, forwarded)
        for (_, unknown, _, _), plan in zip(parts, plans, strict=True)
    )
    return knowns, unknowns, slots, forwarded


def _free_slot(slots: Sequence[Value], plan: Plan, aval: Aval) -> int:
    """Return the first slot of this type that the plan does not use yet; the number of slots when there is none."""
    for k, slot in enumerate(slots):
        if slot is aval and k not in plan:
            return k
    return len(slots)


def _put_in_slots(i: int, aval: Aval, plans: Sequence[Plan], slots: Sequence[Value]) -> bool:
    """Change the plans that need argument i so that it takes an existing slot in each of them.

    Return False, and change nothing, if one of them has none free.
    """
    needing = [plan for plan in plans if ~i in plan]
    found = [_free_slot(slots, plan, aval) for plan in needing]
    if len(slots) in found:
        return False
    for plan, k in zip(needing, found, strict=True):
        plan[plan.index(~i)] = k
    return True


def _fill_slots(known: ClosedJaxpr, plan: Plan, slots: Sequence[Value]) -> ClosedJaxpr:
    """Return a known part that returns each residual in its slot, and zeros in the other slots."""
    jaxpr = known.jaxpr
    outs, residuals = split_list(jaxpr.outs, len(jaxpr.outs) - len(plan))
    values = {k: x for k, x in zip(plan, residuals, strict=True) if k >= 0}
    empty = [k for k in range(len(slots)) if k not in values]
    before: Sequence[JaxprEqn] = ()
    const_binders, consts = jaxpr.const_binders, known.consts
    if empty:
        fillers = stage(lambda: [zeros(slots[k]) for k in empty], [])
        values.update(zip(empty, fillers.jaxpr.outs, strict=True))
        before = fillers.eqns
        const_binders = (
            *const_binders,
            *fillers.jaxpr.const_binders,
        )  # zeros of float0 are constants
        consts = (*consts, *fillers.consts)
    outs += [values[k] for k in range(len(slots))]
    made = rebound(jaxpr, outs=outs, const_binders=const_binders, before=before)
    return once(verified(ClosedJaxpr(made, consts)))


def _take_slots(
    unknown: ClosedJaxpr,
    known_binders: Sequence[Var],
    plan: Plan,
    slots: Sequence[Value],
    forwarded: Sequence[int],
) -> ClosedJaxpr:
    """Return an unknown part that takes all slots and all forwarded arguments, and reads those of its own plan."""
    jaxpr = unknown.jaxpr
    places = {k: Var(a) for k, a in enumerate(slots)}
    for i in forwarded:
        places[~i] = Var(known_binders[i].aval)
    taken = zip(jaxpr.in_binders[: len(plan)], plan, strict=True)
    renamed: dict[Atom, Atom] = {v: places[p] for v, p in taken}
    name = renamed.get
    eqns = [e.replace(inputs=map(name, e.inputs, e.inputs)) for e in jaxpr.eqns]
    binders = [*places.values(), *jaxpr.in_binders[len(plan) :]]
    taking = Jaxpr(binders, eqns, [*map(name, jaxpr.outs, jaxpr.outs)], jaxpr.const_binders)
    live = live_atoms.find(jaxpr)
    if live is not None:
        live_atoms.keep(taking, {*map(name, live, live)})
    return verified(ClosedJaxpr(taking, unknown.consts))


def _saving(eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
    """The saving rule.

    Values that the policy saves in different branches share slots by type, as residuals do.
    """
    branches: Branches = eqn.params["branches"]
    index_unknown, *operands_unks = unks
    cuts = [split_saving(b, operands_unks, saves) for b in branches]
    if index_unknown or not any(cut.n_saved for cut in cuts):
        return None
    unks_out = [any(u) for u in zip(*[cut.unks_out for cut in cuts], strict=True)]
    parts = [(without_known(c, unks_out), c.again, c.unks_out, c.n_saved) for c in cuts]
    known, again, slots, forwarded = _join_residuals(parts)
    index, *operands = [x.aval.strong for x in eqn.inputs]
    known_ops, _ = partition_list(operands_unks, operands)

    def first(index: Value, *args: Value) -> list[Value]:
        return lax.cond_call(index, *args, **{**eqn.params, "branches": known})

    def second(*args: Value) -> list[Value]:
        saved, (index, *operands) = split_list(args, len(slots))
        passed, _ = partition_list(operands_unks, operands)
        inputs = [*saved, *[passed[i] for i in forwarded], *operands]
        return lax.cond_call(index, *inputs, **{**eqn.params, "branches": again})

    staged = stage(first, [index, *known_ops])
    return Saving(staged, stage(second, [*slots, index, *operands]), unks_out)


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    branches: Branches = eqn.params["branches"]
    each = [dce_body(b, used_outs) for b in branches]
    jaxprs, used = unzip2(each)
    used_ins = [*map(any, zip(*used, strict=True))]
    if all(used_outs) and all(used_ins) and jaxprs == [b.jaxpr for b in branches]:
        return eqn, [True, *used_ins]
    smaller = [narrowed(b, used_ins, used_outs) for b in branches]
    index, *operands = eqn.inputs
    inputs, outs = [index, *compress(operands, used_ins)], [*compress(eqn.out_binders, used_outs)]
    params = {**eqn.params, "branches": tuple(smaller)}
    return eqn.replace(inputs=inputs, out_binders=outs, params=params), [True, *used_ins]


def _lower(
    ctx: LoweringContext,
    index: HloValue,
    *operands: HloValue,
    branches: Branches,
    branches_platforms: ParamValue = None,
) -> list[HloValue]:
    """Write a `stablehlo.case`.

    Of branches for several platforms only the one for the CPU is written, since the others may not
    lower.
    """
    if branches_platforms is not None:
        return ctx.inline(branches[platform_position(branches_platforms)], operands)
    return ctx.case(ctx.convert(index, INT32), branches, operands)


def _passing(
    passed: Callable[[ClosedJaxpr], ClosedJaxpr], eqn: JaxprEqn, point: Sequence[Var]
) -> JaxprEqn:
    """Insert the numbers after the index, as first operands of all branches."""
    branches = tuple(map(passed, eqn.params["branches"]))
    index, *rest = eqn.inputs
    return eqn.replace(inputs=[index, *point, *rest], params={**eqn.params, "branches": branches})


define(
    lax.cond_call,
    abstract_eval=_types,
    impl=_choose,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=lambda ins, outs, *, branches, **_: maximum_cost([cost_jaxpr(b) for b in branches]),
    runs=lambda params: [Run("branches", b, branch=i) for i, b in enumerate(params["branches"])],
    partial_eval=_partial_eval,
    saving=_saving,
    passing=_passing,
    linearize=_linearize,
    dce=_dce,
    discharge=discharge_cond,
    steers="operand 0",
)


# -- Python functions --------------------------------------------------------------------------


def cond(
    pred: Value, true_fun: Callable[..., Value], false_fun: Callable[..., Value], *operands: Value
) -> Value:
    """true_fun(*operands) where pred is true, else false_fun(*operands).

    Args:
      pred: a boolean or number of rank 0, possibly traced.
      true_fun, false_fun: functions of pytrees with results of the same structure and types; they may
        close over tracers.
      operands: pytrees.

    Raises:
      UsageError: pred is no scalar. JaxprTypeError: the branches' results differ.
    """
    if pred is None:
        fail(UsageError, "the predicate of cond is None; a scalar is needed", "cond-index")
    aval = get_aval(pred)
    if aval.shape:
        fail(UsageError, f"the predicate of cond is {aval}; a scalar is needed", "cond-index")
    flag = pred if aval.dtype is BOOL else lax.ne(pred, 0)
    index = lax.convert_element_type(flag, new_dtype=INT32)
    return _apply(index, [false_fun, true_fun], operands)


def switch(index: Value, branches: Sequence[Callable[..., Value]], *operands: Value) -> Value:
    """branches[index](*operands), the index clamped to the branches there are.

    Args:
      index: an integer of rank 0, possibly traced.
      branches: functions of pytrees with results of the same structure and types.
      operands: pytrees.

    Raises:
      UsageError: no branches, or index is no integer scalar. JaxprTypeError: the results differ.
    """
    aval = get_aval(index)
    if not branches or aval.shape or not aval.dtype.is_integer:
        fail(UsageError, f"switch needs branches and an integer scalar, not {aval}", "cond-index")
    if aval.dtype is not INT32 or isinstance(index, int):
        index = lax.convert_element_type(index, new_dtype=INT32)
    return _apply(lax.clamp(0, index, len(branches) - 1), list(branches), operands)


def _apply(index: Value, functions: list[Callable[..., Value]], operands: Sequence[Value]) -> Value:
    leaves, in_tree = tree_flatten(tuple(operands))
    avals = [get_aval(x).strong for x in leaves]
    staged, trees = [], []
    for f in functions:
        flat, out_tree = flatten_fun(f, in_tree)
        staged.append(stage(flat, avals, argument_names(f, operands)))
        trees.append(out_tree[0])
    for i, tree in enumerate(trees):
        if tree != trees[0]:
            ill_typed(f"cond: branch 0 returns {trees[0]}, and branch {i} {tree}", "branch-type")
    consts, branches = _join_consts(staged)
    outs = lax.cond_call(index, *consts, *leaves, branches=branches)
    return tree_unflatten(trees[0], outs)


def _join_consts(staged: Sequence[ClosedJaxpr]) -> tuple[list[Value], Branches]:
    """Make the values that the branches close over leading arguments of all branches, each value once."""
    values = {id(c): c for closed in staged for c in closed.consts}
    branches = []
    for closed in staged:
        jaxpr = closed.jaxpr
        own = {id(c): v for v, c in zip(jaxpr.const_binders, closed.consts, strict=True)}
        leading = [own.get(k) or Var(get_aval(c).strong) for k, c in values.items()]
        binders = [*leading, *jaxpr.in_binders]
        branches.append(verified(ClosedJaxpr(Jaxpr(binders, jaxpr.eqns, jaxpr.outs))))
    return list(values.values()), tuple(branches)
