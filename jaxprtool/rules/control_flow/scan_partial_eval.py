"""Partial evaluation of `scan`: one loop over the known part of the body, and one over the rest.

A residual that is the same in all steps is passed to the second loop as a constant; others are
stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import interpreted, interpreting
from jaxprtool.core.env import Env
from jaxprtool.core.partition import merge_lists, partition_list, split_list, spread, unzip2
from jaxprtool.core.policies import Saves
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.dce import draws_anew, has_effects, live_atoms
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate
from jaxprtool.interpreters.linearize import LinearParts, linearize_body
from jaxprtool.interpreters.partial_eval import (
    PartialEvalTrace,
    partial_eval_jaxpr,
    partial_eval_rules,
)
from jaxprtool.interpreters.remat import Saving, split_saving, without_known
from jaxprtool.interpreters.reuse.sharing import multiplies
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Lit,
    Value,
    Var,
    new_closed,
    new_jaxpr,
    type_of,
)
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.rules.control_flow.loops import (
    apply_scan,
    fixpoint,
    pick,
    scan_params,
    split_operands,
    stacked_aval,
)

__all__ = ["carried_unknowns", "linearize_scan", "partial_eval_scan", "saving_scan", "split_scan"]


class ScanSplit(NamedTuple):
    """A scan that is cut into its known and its unknown part.

    Attributes:
      known_outs: the known results.
      closed: the body of the scan of the unknown part.
      consts: the constants of that scan: residuals that are the same in all steps, then unknown
        constants.
      carry: the unknown part of the carry.
      xs: stacked residuals, then the unknown xs.
      unks_out: for each result of the original scan whether it is unknown.
    """

    known_outs: list[Any]
    closed: ClosedJaxpr
    consts: list[Any]
    carry: list[Any]
    xs: list[Any]
    unks_out: list[bool]


def carried_unknowns(
    closed: ClosedJaxpr, consts: Sequence[bool], carry: Sequence[bool], xs: Sequence[bool]
) -> list[bool]:
    """Return which parts of the carry depend on an unknown operand in some step."""
    if all(carry):
        return list(carry)
    n_ys = len(closed.jaxpr.outs) - len(carry)

    def step(flags: list[bool]) -> list[bool]:
        wanted = [*flags, *[False] * n_ys]
        return partial_eval_jaxpr(closed, [*consts, *flags, *xs], wanted)[2][: len(carry)]

    return fixpoint(step, carry)


def split_scan(
    unks: Sequence[bool],
    args: Sequence[Value],
    params: dict[str, Any],
    known: Callable[..., Any],
) -> ScanSplit:
    """Scan the known part of the body, and return the scan of the rest.

    Args:
      unks: for each operand whether it is unknown.
      args: the operands.
      params: the params of the scan.
      known: `known(f, *args)` calls f where known operations are to be applied.
    """
    closed: ClosedJaxpr = params["jaxpr"]
    const_unks, carry_unks, xs_unks = split_operands(unks, params)
    n_ys = len(closed.jaxpr.outs) - len(carry_unks)
    carried = carried_unknowns(closed, const_unks, carry_unks, xs_unks)
    wanted = [*carried, *[False] * n_ys]
    first, second, unks_out, n_res = partial_eval_jaxpr(
        closed, [*const_unks, *carried, *xs_unks], wanted
    )
    consts, carry, xs = split_operands(args, params)
    both = [
        partition_list(u, x) for u, x in ((const_unks, consts), (carried, carry), (xs_unks, xs))
    ]
    known_parts, rest = unzip2(both)
    run = known(_run_known, first, n_res, known_parts, params)
    return _left_to_scan(second, run, rest, unks_out)


def _left_to_scan(
    second: ClosedJaxpr,
    run: Sequence[list[Value]],
    rest: Sequence[list[Value]],
    unks_out: list[bool],
) -> ScanSplit:
    """Return the scan of the unknown part.

    Args:
      second: the unknown part of the body.
      run: the result of `_run_known`.
      rest: the unknown consts, carry and xs.
      unks_out: for each result of the original scan whether it is unknown.
    """
    outs, invariant, stacked, places = run
    consts, carry, xs = rest
    unknown_at = list(range(len(places), len(second.jaxpr.in_binders)))
    consts_at, carry_at, xs_at = split_list(unknown_at, len(consts), len(carry))
    invariant_at = [i for i, same in enumerate(places) if same]
    stacked_at = [i for i, same in enumerate(places) if not same]
    body = pick(second, [*invariant_at, *consts_at, *carry_at, *stacked_at, *xs_at])
    return ScanSplit(outs, body, [*invariant, *consts], carry, [*stacked, *xs], unks_out)


def _calls_apart(closed: ClosedJaxpr, n_consts: int) -> ClosedJaxpr:
    """Return the same function with calls split in two, so that the parts that depend on constants
    alone are calls of their own.
    """
    loops = (lax.scan_call.primitive, lax.while_call.primitive, lax.cond_call.primitive)
    used = {e.primitive for e in closed.jaxpr.eqns}
    if not any(p in partial_eval_rules for p in used.difference(loops)) or multiplies(closed):
        return closed
    varying = [i >= n_consts for i in range(len(closed.in_avals))]
    return _CALLS_APART.of(
        closed, n_consts, lambda: _one_after_the_other(*partial_eval_jaxpr(closed, varying))
    )


_CALLS_APART = MemoTable[ClosedJaxpr]("calls apart")


def _one_after_the_other(
    known: ClosedJaxpr, unknown: ClosedJaxpr, unks_out: Sequence[bool], n_res: int
) -> ClosedJaxpr:
    """Join the two parts of a partial evaluation to one jaxpr: (known arguments, unknown arguments) -> (results)."""
    first, second = known.jaxpr, unknown.jaxpr
    known_outs, residuals = split_list(first.outs, len(first.outs) - n_res)
    binders, unknown_binders = split_list(second.in_binders, n_res)
    renamed: dict[Atom, Atom] = dict(zip(binders, residuals, strict=True))
    name = renamed.get
    eqns = [e.replace(inputs=map(name, e.inputs, e.inputs)) for e in second.eqns]
    outs = merge_lists(unks_out, known_outs, [*map(name, second.outs, second.outs)])
    binders = [*first.in_binders, *unknown_binders]
    joined = Jaxpr(binders, [*first.eqns, *eqns], outs, first.const_binders)
    return verified(ClosedJaxpr(joined, known.consts))


class _Hoisted(NamedTuple):
    """A body of a loop without its loop-invariant equations, whose results are the same in all steps.

    Attributes:
      before: the hoisted equations, which depend on constants alone.
      shared: the constants and results of `before` that the rest reads.
      body: the rest: (shared, carry, xs) -> (results, residuals to stack).
      stacked: residual -> its position among the results of `body`.
    """

    before: list[JaxprEqn]
    shared: list[Any]
    body: ClosedJaxpr
    stacked: dict[Any, int]


def _hoisted(closed: ClosedJaxpr, n_consts: int, n_carry: int, n_out: int) -> _Hoisted:
    key = (n_consts, n_carry, n_out)
    return _HOISTED.of(closed, key, lambda: _hoist(closed.jaxpr, *key))


_HOISTED = MemoTable[_Hoisted]("body without what is the same in all steps")


def _hoist(jaxpr: Jaxpr, n_consts: int, n_carry: int, n_out: int) -> _Hoisted:
    _, carry, xs = split_list(jaxpr.in_binders, n_consts, n_carry)
    varying = {*carry, *xs}
    before: list[JaxprEqn] = []
    kept: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if varying.isdisjoint(eqn.inputs) and not (has_effects(eqn) or draws_anew(eqn)):
            before.append(eqn)
        else:
            kept.append(eqn)
            varying.update(eqn.out_binders)
    results = jaxpr.outs[:n_out]
    computed = varying.difference(xs)
    stack = list(dict.fromkeys(filter(computed.__contains__, jaxpr.outs[n_out:])))
    read = dict.fromkeys(chain(*[e.inputs for e in kept], results))
    shared = [x for x in read if isinstance(x, Var) and x not in varying]
    body = new_jaxpr([*shared, *carry, *xs], kept, [*results, *stack])
    if live_atoms.find(jaxpr) is not None:  # then everything kept is live as well
        live_atoms.keep(body, {*read, *stack})
    stacked = {x: i for i, x in enumerate(stack, n_out)}
    return _Hoisted(before, shared, verified(new_closed(body)), stacked)


def _run_known(
    first: ClosedJaxpr, n_res: int, parts: Sequence[list[Value]], params: dict[str, ParamValue]
) -> tuple[list[Value], list[Value], list[Value], list[bool]]:
    """Run the known part of a scan.

    Returns:
      The known results.
      The residuals that are the same in all steps.
      The other residuals, stacked.
      For each residual in order whether it is the same in all steps.
    """
    consts, carry, xs = parts
    first = _calls_apart(first, len(consts))
    jaxpr, n_out = first.jaxpr, len(first.jaxpr.outs) - n_res
    before, shared, body, stacked = _hoisted(first, len(consts), len(carry), n_out)
    const_vars = jaxpr.const_binders + jaxpr.in_binders[: len(consts)]
    env = Env(zip(const_vars, [*first.const_operands, *consts], strict=True))
    with interpreting():
        for eqn in interpreted(before):
            ins = env.read(eqn.inputs)
            env.write(eqn.out_binders, bind_eqn(eqn, ins))
    outs: list[Any] = []
    if body.jaxpr.outs:
        outs = apply_scan(body, env.read(shared), carry, xs, params)
    slices = dict(zip(jaxpr.in_binders[len(consts) + len(carry) :], xs, strict=True))
    same_in_all, of_each, places = [], [], []
    for x in jaxpr.outs[n_out:]:
        same = type(x) is Lit or x in env
        places.append(same)
        if same:
            same_in_all.append(env[x])
        else:
            of_each.append(slices[x] if x in slices else outs[stacked[x]])
    return outs[:n_out], same_in_all, of_each, places


def partial_eval_scan(
    trace: PartialEvalTrace, args: Sequence[Value], **params: ParamValue
) -> list[Value]:
    """The partial_eval rule: run a loop over the known part, and record a loop over the rest on `trace`."""
    unks = [trace.is_unknown(x) for x in args]
    cut = split_scan(unks, args, params, trace.known)
    return merge_lists(cut.unks_out, cut.known_outs, _record_rest(trace, cut, params))


def _record_rest(trace: PartialEvalTrace, cut: ScanSplit, params: dict[str, Any]) -> list[Value]:
    """Record the scan of the unknown part, and return its results."""
    fields = scan_params(cut.closed, len(cut.consts), len(cut.carry), params)
    atoms = [trace.atom(x) for x in (*cut.consts, *cut.carry, *cut.xs)]
    n_carry, length = len(cut.carry), params["length"]
    avals = [*map(type_of, cut.closed.jaxpr.outs)]
    avals[n_carry:] = [stacked_aval(a, length) for a in avals[n_carry:]]
    return trace.emit(lax.scan_call.primitive, atoms, fields, avals) if avals else []


def linearize_scan(
    trace: PartialEvalTrace, primals: Value, tangents: Value, **params: Any
) -> tuple[list[Value], list[Value]]:
    """Scan the primal part of the linearized body, and record the scan of its linear part."""
    closed: ClosedJaxpr = params["jaxpr"]
    const_ts, carry_ts, xs_ts = split_operands(tangents, params)
    nonzero = [type(t) is not Zero for t in tangents]
    const_nz, carry_nz, xs_nz = split_operands(nonzero, params)
    n_carry = len(carry_ts)
    n_ys = len(closed.jaxpr.outs) - n_carry

    def linearized(carried: Sequence[bool]) -> LinearParts:
        wanted = [*carried, *[False] * n_ys]
        return linearize_body(closed, [*const_nz, *carried, *xs_nz], wanted)

    carried = fixpoint(lambda flags: linearized(flags).flags[:n_carry], carry_nz)
    primal, linear, flags, n_res = linearized(carried)
    run = trace.known(_run_known, primal, n_res, split_operands(primals, params), params)
    live = [
        [*compress(const_ts, const_nz)],
        [*map(instantiate, compress(carry_ts, carried))],
        [*compress(xs_ts, xs_nz)],
    ]
    cut = _left_to_scan(linear, run, live, flags)
    outs, recorded = cut.known_outs, _record_rest(trace, cut, params)
    return outs, fill_zeros(flags, recorded, map(get_aval, outs))


def saving_scan(eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
    """The saving rule.

    Values of the body that the policy saves are stacked, or returned once if they are the same in
    all steps.
    """
    closed, params = eqn.params["jaxpr"], eqn.params
    const_unks, carry_unks, xs_unks = split_operands(unks, params)
    n_carry = len(carry_unks)

    def cut_body(carried: Sequence[bool]) -> Saving:
        return split_saving(closed, [*const_unks, *carried, *xs_unks], saves)

    carried = fixpoint(lambda u: cut_body(u).unks_out[:n_carry], carry_unks)
    cut = cut_body(carried)
    if not cut.n_saved:
        return None
    unks_out = [*carried, *cut.unks_out[n_carry:]]
    first = without_known(cut, unks_out)
    places: list[bool] = []

    def known(*args: Value) -> list[Value]:
        consts, carry, xs = split_operands(spread([not u for u in unks], args), params)
        flags = (const_unks, consts), (carried, carry), (xs_unks, xs)
        parts = [partition_list(u, values)[0] for u, values in flags]
        outs, invariant, stacked, places[:] = _run_known(first, cut.n_saved, parts, params)
        return [*outs, *invariant, *stacked]

    avals = [x.aval for x, u in zip(eqn.inputs, unks, strict=True) if not u]
    staged = stage(known, [a.strong for a in avals])
    return Saving(staged, _again(eqn, cut, places), unks_out)


def _again(eqn: JaxprEqn, cut: Saving, same_in_all: Sequence[bool]) -> ClosedJaxpr:
    """Return the scan that recomputes the values not saved.

    It is (saved values that are the same in all steps, stacked saved values, operands) ->
    (results).
    """
    params, n = eqn.params, len(same_in_all)
    at = [n + i for i in range(len(eqn.inputs))]
    consts_at, carry_at, xs_at = split_operands(at, params)
    invariant_at, stacked_at = (
        [i for i, same in enumerate(same_in_all) if same is wanted] for wanted in (True, False)
    )
    body = pick(cut.again, [*invariant_at, *consts_at, *carry_at, *stacked_at, *xs_at])
    n_invariant = len(invariant_at)

    def scan(*args: Value) -> list[Value]:
        saved, operands = split_list(args, n)
        consts, carry, xs = split_operands(operands, params)
        invariant, stacked = split_list(saved, n_invariant)
        return apply_scan(body, [*invariant, *consts], carry, [*stacked, *xs], params)

    types = [cut.again.in_avals[i].strong for i in (*invariant_at, *stacked_at)]
    types[n_invariant:] = [stacked_aval(a, params["length"]) for a in types[n_invariant:]]
    return stage(scan, [*types, *[x.aval.strong for x in eqn.inputs]])
