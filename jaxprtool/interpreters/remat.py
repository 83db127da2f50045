"""Decide which values of a first computation are saved for a second one, which computes the others again.

A rematerialised jaxpr is computed twice: its known part at first, and all of it when tangents or
cotangents are computed. A policy decides for each equation whether its results are saved for the
second computation. The `saving` rule of a loop, a branch or a call applies the policy to the
equations inside of it.

Contract of a `saving` rule, for primitives whose params hold jaxprs (the policy treats others as
single operations):

    rule(eqn, unks, saves) -> Saving, with the equation's operands as the arguments, or None

It gets an equation, for each operand whether it is unknown, and the policy. None means that nothing
inside is saved.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import interpreted, interpreting, set_current_trace
from jaxprtool.core.partition import split_list, spread
from jaxprtool.core.policies import Offload, Saves, save_nothing
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.memory_spaces import put_in_memory
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, partial_eval_rules
from jaxprtool.interpreters.reuse.sharing import multiplies
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.walk import sub_jaxprs

__all__ = [
    "Saving",
    "saving_rules",
    "split_saving",
    "without_known",
]


saving_rules = RuleTable("saving")


class Saving(NamedTuple):
    """The two computations into which a jaxpr (a1, a2) -> (b1, b2), with a2 and b2 unknown, is split.

    Attributes:
      known: a1 -> (b1, saved).
      again: (saved, all of a) -> all of b.
      unks_out: for each result whether it is unknown.
    """

    known: ClosedJaxpr
    again: ClosedJaxpr
    unks_out: list[bool]

    @property
    def n_saved(self) -> int:
        """The number of saved values."""
        return len(self.known.jaxpr.outs) - self.unks_out.count(False)


@deep
def split_saving(closed: ClosedJaxpr, unks: Sequence[bool], saves: Saves) -> Saving:
    """Split a jaxpr into a first and a second computation.

    Args:
      closed: (a1, a2) -> (b1, b2).
      unks: for each argument whether it is unknown (a2).
      saves: the policy. Equal policies have to compare equal, since one split is kept for each.
    """
    return _SAVING.of(closed, (tuple(unks), saves), lambda: _Splitter(closed, unks, saves).run())


def without_known(cut: Saving, unks_out: Sequence[bool]) -> ClosedJaxpr:
    """Return the known part of a split without the results that `unks_out` marks as unknown."""
    wanted = [not u for u, own in zip(unks_out, cut.unks_out, strict=True) if not own]
    used = [*wanted, *[True] * cut.n_saved]

    def make() -> ClosedJaxpr:
        smaller, _ = dce_jaxpr(cut.known.jaxpr, used, keep_inputs=True)
        return ClosedJaxpr(smaller, cut.known.consts)

    return _WITHOUT_KNOWN.of(cut.known, tuple(used), make)


_SAVING = MemoTable[Saving]("split for saving")
_WITHOUT_KNOWN = MemoTable[ClosedJaxpr]("known part with fewer results")


class _Splitter:
    """Splits one jaxpr; it has the traces of both computations, and the values of each variable in them.

    Attributes:
      first: the trace of the known part.
      second: the trace of everything.
      values: for each variable its values in `first` (None for an unknown one) and in `second`.
      saved: the values of `first` that are passed to `second`, and their binders there.
    """

    def __init__(self, closed: ClosedJaxpr, unks: Sequence[bool], saves: Saves):
        self.closed, self.saves = closed, saves
        self.first, self.second = JaxprTrace(), JaxprTrace()
        self.values: dict[Any, tuple[Any, Any]] = {}
        self.saved: list[tuple[Any, Any]] = []
        jaxpr = closed.jaxpr
        consts = zip(self.first.new_consts(closed), self.second.new_consts(closed), strict=True)
        self.values.update(zip(jaxpr.const_binders, consts, strict=True))
        for v, unknown in zip(jaxpr.in_binders, unks, strict=True):
            known = None if unknown else self.first.new_input(v.aval)
            self.values[v] = known, self.second.new_input(v.aval)

    def run(self) -> Saving:
        with interpreting():
            for eqn in interpreted(self.closed.eqns):
                outs = self.equation(eqn, *self.read(eqn.inputs))
                self.values.update(zip(eqn.out_binders, outs, strict=True))
        outs, again_outs = self.read(self.closed.jaxpr.outs)
        again, read = self.again(again_outs)
        saved = [x for (x, _), r in zip(self.saved, read, strict=True) if r]
        known = self.first.build([*[x for x in outs if x is not None], *saved])
        return Saving(known, again, [x is None for x in outs])

    def again(self, outs: Sequence[Value]) -> tuple[ClosedJaxpr, list[bool]]:
        """Return the second computation, and for each saved value whether it reads it; only those
        are its arguments.
        """
        second, n_saved = self.second, len(self.saved)
        args, saved = split_list(second.in_binders, len(second.in_binders) - n_saved)
        results = [second.atom(x) for x in outs]
        jaxpr = Jaxpr([*saved, *args], second.eqns, results, second.const_binders)
        smaller, used = dce_jaxpr(jaxpr)
        binders = [*[v for v, u in zip(saved, used, strict=False) if u], *args]
        jaxpr = Jaxpr(binders, smaller.eqns, smaller.outs, smaller.const_binders)
        return verified(ClosedJaxpr(jaxpr, second.consts)), used[:n_saved]

    def read(self, atoms: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        pairs = [(x, x) if type(x) is Lit else self.values[x] for x in atoms]
        return [a for a, _ in pairs], [b for _, b in pairs]

    def save(self, value: Value) -> Value:
        """Pass a value of the first computation to the second one."""
        given = self.second.new_input(value.aval)
        self.saved.append((value, given))
        return given

    def offload(self, move: Offload, value: Value) -> Value:
        """Pass a value to the second computation by way of another memory space."""
        with set_current_trace(self.first):
            moved = put_in_memory(value, move.memory)
        given = self.save(moved)
        with set_current_trace(self.second):
            return put_in_memory(given, move.source)

    def equation(
        self, eqn: JaxprEqn, ins: list[Value], again: list[Value]
    ) -> list[tuple[Value, Value]]:
        """Record an equation. Returns each of its results as (value in the first computation, value in the second)."""
        unks = [x is None for x in ins]
        rule = None if self.saves is save_nothing else saving_rules.find(eqn.primitive)
        cut = None if rule is None else rule(eqn, unks, self.saves)
        if cut is not None:
            calls = any(map(multiplies, sub_jaxprs(eqn)))
            return self.nested(cut, calls, ins, again)
        if any(unks):
            return list(
                zip(self.known_results(eqn, ins), self.second.copy_eqn(eqn, again), strict=True)
            )
        outs = self.first.copy_eqn(eqn, ins)
        answer = self.saves(eqn)
        if not answer:
            return list(zip(outs, self.second.copy_eqn(eqn, again), strict=True))
        save = self.save if answer is True else functools.partial(self.offload, answer)
        binders = zip(eqn.out_binders, outs, strict=True)
        return [(x, x if type(v) is DropVar else save(x)) for v, x in binders]

    def nested(
        self, cut: Saving, calls: bool, ins: list[Value], again: list[Value]
    ) -> list[tuple[Value, Value]]:
        """Record both computations of an equation in its place, or calls of them (Note [In place or called])."""
        copied = self.called if calls else JaxprTrace.copy_jaxpr
        outs = copied(self.first, cut.known, [x for x in ins if x is not None])
        known, saved = split_list(outs, len(outs) - cut.n_saved)
        results = copied(self.second, cut.again, [*map(self.save, saved), *again])
        firsts = spread([not u for u in cut.unks_out], known)
        return list(zip(firsts, results, strict=True))

    def called(self, trace: JaxprTrace, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """Record a call of a jaxpr."""
        with set_current_trace(trace):
            return lax.jit_call(*args, jaxpr=closed)

    def known_results(self, eqn: JaxprEqn, ins: list[Value]) -> list[Value]:
        """Return the results of an equation with unknown operands that are known nevertheless; None for the others."""
        if eqn.primitive not in partial_eval_rules:
            return [None] * len(eqn.out_binders)
        trace = PartialEvalTrace(self.first)
        pairs = zip(ins, eqn.inputs, strict=True)
        operands = [trace.new_input(v.aval) if x is None else x for x, v in pairs]
        with set_current_trace(trace):
            outs = bind_eqn(eqn, operands)
        return [None if trace.is_unknown(x) else x for x in outs]
