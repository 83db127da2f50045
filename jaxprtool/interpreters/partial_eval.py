"""Partial evaluation: the part of a program that depends on known values only, and the rest.

One trace does it for Python functions and for jaxprs. `PartialEvalTrace` records the operations that have an unknown operand
as a jaxpr. It leaves the other operations to its parent, which evaluates them (when a Python function is traced) or records
them in a second jaxpr (when a jaxpr is split). Known values that the recorded jaxpr reads are its constants: the residuals.

Contract of a `partial_eval` rule, for primitives whose params hold jaxprs (others are recorded whole):

    rule(trace, args, **params) -> [results]

Operands are tracers of `trace` (unknown), or known values; at least one is unknown. The rule applies operations on known
values by `trace.known(...)`, and records the other operations on `trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool.core.bind import interpreted, set_current_trace, state
from jaxprtool.core.env import Env
from jaxprtool.core.partition import check_flags, merge_lists, partition_list
from jaxprtool.core.rule_table import FactTable, RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import Trace
from jaxprtool.core.verification import verifying
from jaxprtool.interpreters.check import (
    check_split,
    typecheck_partial_eval_jaxpr,
    verified,
)
from jaxprtool.interpreters.dce import dce_jaxpr, rebound
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.interfaces import of_partial_eval, with_interface
from jaxprtool.interpreters.reuse.sharing import computes_again, rematerialised
from jaxprtool.interpreters.stage import JaxprTrace, JaxprTracer
from jaxprtool.ir.diagnostics import InternalError, JaxprTypeError
from jaxprtool.ir.jaxpr import (
    Aval,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Lit,
    Primitive,
    Value,
    new_closed,
)
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.params import ParamValue

__all__ = [
    "PartialEvalTrace",
    "call_known_part",
    "partial_eval_jaxpr",
    "partial_eval_rules",
    "residual_facts",
    "parts",
    "split_call",
]

partial_eval_rules = RuleTable("partial_eval")
_RULES = partial_eval_rules.rules
_record = JaxprTrace.process_primitive
_record_again = JaxprTrace.process_again
# For a known equation whose operands are all literals: whether its result is saved for the unknown part, or computed again there.
residual_facts = FactTable("residual", "saved", "made again")


class PartialEvalTrace(JaxprTrace):
    """Records the operations with an unknown operand; `parent` processes the others."""

    __slots__ = ()
    inline_scalars = False

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def recorders(self) -> tuple[Any, Any]:
        return (self.parent, self) if type(self.parent) is JaxprTrace else (None, None)

    def is_unknown(self, x: Value) -> bool:
        """Whether `x` is a tracer of this trace."""
        return type(x) is JaxprTracer and x._trace is self

    def knows_none(self, args: Sequence[Value]) -> bool:
        """Whether every operand is unknown or a literal."""
        return all(self.is_unknown(x) or type(x) is Lit for x in args)

    def literal(self, lit: Lit) -> Value:
        return self.parent.literal(lit)

    def known(self, f: Callable[..., Value], *args: Value, **params: ParamValue) -> Value:
        """Call `f` with the parent as the current trace."""
        previous, state.trace = state.trace, self.parent
        try:
            return f(*args, **params)
        finally:
            state.trace = previous

    def process_typed(
        self,
        primitive: Primitive,
        args: Sequence[Value],
        params: dict[str, ParamValue],
        out_avals: Sequence[Aval],
    ) -> list[Value]:
        if any(map(self.is_unknown, args)):
            return self.process_primitive(primitive, args, params)
        return self.known(self.parent.process_typed, primitive, args, params, out_avals)

    def process_again(self, eqn: JaxprEqn, args: Sequence[Value]) -> Value:
        primitive = eqn.primitive
        rule = _RULES.get(primitive) or (primitive.pending and partial_eval_rules.find(primitive))
        if rule or not any(map(self.is_unknown, args)):
            return self.process_primitive(primitive, args, eqn.params)
        return _record_again(self, eqn, args)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        for x in args:
            if type(x) is JaxprTracer and x._trace is self:
                break
        else:
            parent = self.parent
            if type(parent) is JaxprTrace:  # it only records
                return parent.process_primitive(primitive, args, params)
            return self.known(parent.process_primitive, primitive, args, params)
        rule = _RULES.get(primitive) or (primitive.pending and partial_eval_rules.find(primitive))
        if rule:
            return rule(self, args, **params)
        return _record(self, primitive, args, params)


@deep
def partial_eval_jaxpr(
    closed: Jaxpr | ClosedJaxpr,
    unks_in: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
    *,
    verify: bool = False,
    keep: bool = False,
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]:
    """Split ("unzip") a jaxpr by which of its arguments are unknown.

    Args:
      closed: (a1, a2) -> (b1, b2).
      unks_in: for each argument whether it is unknown (a2).
      instantiate: which results become unknown even if they could be known.
      keep: whether every residual is saved, however many there are (Note [Kept or computed again]).
      verify: check the parts' types against the whole, also where verification is off.

    Returns:
      known: a1 -> (b1, res), with the constants of `closed` as its constants; unknown: (res, a2) ->
        b2; for each result whether it is unknown; the number of residuals.

    Raises:
      UsageError: there are more or fewer `unks_in` than arguments.
    """
    closed = transformable(closed)
    wanted = instantiate
    if isinstance(wanted, bool):
        wanted = [wanted] * len(closed.jaxpr.outs)
    key = (keep, tuple(unks_in), tuple(wanted))
    found = _PARTS.find(closed, key)
    if found is None:
        check_flags("partial_eval_jaxpr", unks_in, closed.in_avals)
        found = _partial_eval_jaxpr(closed, unks_in, wanted)
        if not keep and computes_again(closed, found[3]):
            found = _partial_eval_jaxpr(rematerialised(closed), unks_in, wanted)
        if closed.interface is not None:
            known, unknown, unks_out, n_res = found
            faces = of_partial_eval(closed.interface, unks_in, unks_out, n_res)
            known, unknown = map(with_interface, (known, unknown), faces)
            found = known, unknown, unks_out, n_res
        _PARTS.keep(closed, key, found)
        # also kept under the flags of the results, since some callers know those and ask by them
        _PARTS.keep(closed, (keep, tuple(unks_in), tuple(found[2])), found)
    known, unknown, unks_out, n_res = found
    if verify or verifying():
        _verify_parts(closed.jaxpr, unks_in, known, unknown, unks_out, deep=verify)
    return known, unknown, unks_out, n_res


def _verify_parts(
    whole: Jaxpr,
    unks_in: Sequence[bool],
    known: ClosedJaxpr,
    unknown: ClosedJaxpr,
    unks_out: Sequence[bool],
    *,
    deep: bool,
) -> None:
    """Check that the parts are a split of the whole, in which constants are known; with `deep`,
    check their bodies too.
    """
    flags = [False] * len(whole.const_binders) + list(unks_in)
    check = typecheck_partial_eval_jaxpr if deep else check_split
    try:
        check(whole, flags, unks_out, known.jaxpr, unknown.jaxpr)
    except JaxprTypeError as e:
        raise InternalError(f"the parts of partial evaluation do not fit: {e}") from e


def _partial_eval_jaxpr(
    closed: ClosedJaxpr, unks_in: Sequence[bool], wanted: Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]:
    jaxpr = closed.jaxpr
    first = JaxprTrace()
    second = PartialEvalTrace(first)
    env = Env(zip(jaxpr.const_binders, first.new_consts(closed), strict=True))
    with set_current_trace(second):
        for v, unknown in zip(jaxpr.in_binders, unks_in, strict=True):
            env[v] = (second if unknown else first).new_input(v.aval)
        for eqn in interpreted(jaxpr.eqns):
            ins = env.read(eqn.inputs)
            if not any(second.is_unknown(x) for x in ins):
                outs = first.copy_eqn(eqn, ins)
            elif eqn.primitive in partial_eval_rules:
                outs = bind_eqn(eqn, ins)
            else:
                outs = second.copy_eqn(eqn, ins)
            env.write(eqn.out_binders, outs)
    outs = env.read(jaxpr.outs)
    unks_out = [w or second.is_unknown(x) for w, x in zip(wanted, outs, strict=True)]
    known_outs, unknown_outs = partition_list(unks_out, outs)
    known, unknown, n_res = parts(first, known_outs, second.finish(unknown_outs))
    return known, unknown, unks_out, n_res


_PARTS = MemoTable[tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]]("parts")


def parts(
    first: JaxprTrace, known_outs: Sequence[Value], rest: ClosedJaxpr
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Return the two parts of a program that was split between traces.

    A value that needs no argument (a filled array, an iota) is no residual: the unknown part
    computes it again, unless it is a result of the known part anyway.

    Args:
      first: the trace that recorded the known part.
      known_outs: the known results.
      rest: the unknown part, with its residuals as its constants.

    Returns:
      known: a1 -> (b1, res), with the constants of `first` as its constants; unknown: (res, a2) ->
        b2; the number of residuals.
    """
    residuals = [*map(first.atom, rest.consts)]
    makers = {
        e.out_binders[0]: e
        for e in first.eqns
        if e.primitive in residual_facts and all(type(x) is Lit for x in e.inputs)
    }
    if not makers:
        known = first.build_live([*known_outs, *rest.consts])
        unknown = rebound(rest.jaxpr, rest.jaxpr.all_binders, const_binders=())
        return known, verified(new_closed(unknown)), len(residuals)
    needed = [x for x, a in zip(rest.consts, residuals, strict=True) if a not in makers]
    known = first.build_live([*known_outs, *needed])
    jaxpr = known.jaxpr
    there = {v for e in jaxpr.eqns for v in e.out_binders}
    binders, made, kept = [], [], []
    for v, x in zip(rest.jaxpr.const_binders, residuals, strict=True):
        if x in makers and x not in there:
            made.append(makers[x].replace(out_binders=[v]))
        else:
            binders.append(v)
            kept.append(x)
    outs = [*jaxpr.outs[: len(known_outs)], *kept]
    closed = new_closed(rebound(jaxpr, outs=outs), known.consts)
    binders += rest.jaxpr.in_binders
    unknown = rebound(rest.jaxpr, binders, const_binders=(), before=made)
    return verified(closed), verified(new_closed(unknown)), len(kept)


def split_call(
    trace: PartialEvalTrace,
    closed: ClosedJaxpr,
    args: Sequence[Value],
    call_known: Callable[[ClosedJaxpr, list[Value]], list[Value]],
    record_unknown: Callable[[ClosedJaxpr, list[Value]], list[Value]],
) -> list[Value]:
    """Partially evaluate a call of a jaxpr as calls of its two parts.

    A known result, or a residual, that is just an argument is taken from the operands, so it is
    never passed through the call; a part without equations is not called at all.
    """
    unks = [trace.is_unknown(x) for x in args]
    known, unknown, unks_out, n_res = partial_eval_jaxpr(closed, unks)
    known_args, unknown_args = partition_list(unks, args)
    outs = call_known_part(trace, known, known_args, call_known)
    n_known = len(outs) - n_res
    unknown_outs = record_unknown(unknown, [*outs[n_known:], *unknown_args])
    return merge_lists(unks_out, outs[:n_known], unknown_outs)


def call_known_part(
    trace: PartialEvalTrace,
    known: ClosedJaxpr,
    args: Sequence[Value],
    call: Callable[[ClosedJaxpr, list[Value]], list[Value]],
) -> list[Value]:
    """Call the known part of a call; return its results and residuals.

    Those that are arguments or literals are not passed through the call.
    """
    return _call_forwarding(known, args, lambda c, xs: trace.known(call, c, xs))


def _call_forwarding(
    closed: ClosedJaxpr, args: Sequence[Value], call: Callable[..., list[Value]]
) -> list[Value]:
    """Return the results of a call of a jaxpr.

    Only results that the jaxpr computes become results of the call, each once; others are taken
    from the operands.
    """
    jaxpr = closed.jaxpr
    env = Env(zip(jaxpr.in_binders, args, strict=True))
    smaller, used = _COMPUTING.of(closed, lambda: _computing(closed))
    computed = smaller.jaxpr.outs
    if computed:
        env.write(computed, call(smaller, [*compress(args, used)]))
    return env.read(jaxpr.outs)


_COMPUTING = Memo[tuple[ClosedJaxpr, list[bool]]]("results that are computed")


def _computing(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[bool]]:
    """Return the jaxpr with only the results that its equations compute, each once, and which arguments these need."""
    jaxpr = closed.jaxpr
    given = {*jaxpr.in_binders}
    outs = [*dict.fromkeys(x for x in jaxpr.outs if type(x) is not Lit and x not in given)]
    smaller, used = dce_jaxpr(Jaxpr(jaxpr.in_binders, jaxpr.eqns, outs, jaxpr.const_binders))
    return ClosedJaxpr(smaller, closed.consts), used
