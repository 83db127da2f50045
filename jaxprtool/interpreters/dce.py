"""Dead-code elimination.

Contract of a `dce` rule, for primitives whose params hold jaxprs (others need none):

    rule(eqn, used_outs) -> (eqn, used_ins)

It gets an equation and for each of its results whether it is read (at least one is). It returns the
equation with only the results that are read and only the operands that it still needs, and for each
operand of the old equation whether the new one has it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool.core.rule_table import FactTable, RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.inside import any_equation
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value, Var, new_jaxpr
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.walk import sub_jaxprs

__all__ = [
    "dce_body",
    "dce_jaxpr",
    "dce_rules",
    "draws_anew",
    "effect_facts",
    "has_effects",
    "jaxpr_has_effects",
    "live_atoms",
    "live_eqns",
    "rebound",
]

dce_rules = RuleTable("dce")
# Whether an operation has side effects. "inside": only on references of its own jaxprs, which are invisible outside. "state": it gives
# different results each time, and may be removed where nothing reads them.
effect_facts = FactTable("effects", False, True, "inside", "state")


def has_effects(eqn: JaxprEqn) -> bool:
    """Whether an equation has side effects, so that it stays although nothing reads its results.

    Undeclared primitives are assumed to have effects, and so are equations without results and
    those whose jaxprs have effects.
    """
    primitive = eqn.primitive
    effects = effect_facts[primitive]
    if not primitive.known or not eqn.out_binders or effects is True:
        return True
    if effects == "inside" or not primitive.holds_jaxprs:
        return False
    return any(jaxpr_has_effects(c.jaxpr) for c in sub_jaxprs(eqn))


jaxpr_has_effects = any_equation("has effects", has_effects)


def draws_anew(eqn: JaxprEqn) -> bool:
    """Whether an equation, or one inside it, gives different results each time, so that two equal
    ones must stay two.
    """
    primitive = eqn.primitive
    if not primitive.holds_jaxprs:
        return effect_facts[primitive] == "state"
    return any(_jaxpr_draws_anew(c.jaxpr) for c in sub_jaxprs(eqn))


_jaxpr_draws_anew = any_equation("gives other results each time", draws_anew)
# For a jaxpr without dead equations: the atoms that are read as operands or results.
live_atoms = Memo[set[Any]]("live atoms")


@deep
def dce_jaxpr(
    jaxpr: Jaxpr, used_outs: Sequence[bool] | None = None, *, keep_inputs: bool = False
) -> tuple[Jaxpr, list[bool]]:
    """Remove results, equations, and arguments that are not needed.

    Args:
      jaxpr: the jaxpr.
      used_outs: for each result whether it stays (default: all stay).
      keep_inputs: whether arguments stay although nothing reads them.

    Returns:
      The smaller jaxpr, and for each argument whether it is still there. All constants stay, since
        their values are kept elsewhere. The same jaxpr object where there is nothing to remove.
    """
    if used_outs is None or all(used_outs):
        outs, kept, live = jaxpr.outs, jaxpr.eqns, live_atoms.find(jaxpr)
    else:
        outs = [*compress(jaxpr.outs, used_outs)]
        kept, live = [], None
    if live is None:
        kept, live = live_eqns(jaxpr.eqns, outs)
        if len(outs) == len(jaxpr.outs) and _same(kept, jaxpr.eqns):
            kept, live = jaxpr.eqns, live_atoms.keep(jaxpr, live)
    if keep_inputs:
        used_ins = [True] * len(jaxpr.in_binders)
    else:
        used_ins = [*map(live.__contains__, jaxpr.in_binders)]
    if kept is jaxpr.eqns and all(used_ins):
        return jaxpr, used_ins
    binders = [*compress(jaxpr.in_binders, used_ins)]
    smaller = new_jaxpr(binders, kept, outs, jaxpr.const_binders, jaxpr.span, jaxpr.comments)
    live_atoms.keep(smaller, live)
    return verified(smaller), used_ins


def _same(a: Sequence[JaxprEqn], b: Sequence[JaxprEqn]) -> bool:
    return len(a) == len(b) and all(map(operator.is_, a, b))


def live_eqns(eqns: Sequence[JaxprEqn], outs: Sequence[Value]) -> tuple[list[JaxprEqn], set[Value]]:
    """Return the equations that `outs` need, without results and operands that nothing reads, and
    the atoms that they read.
    """
    live = set(outs)  # it may hold literals, which does no harm
    kept: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        binders, primitive = eqn.out_binders, eqn.primitive
        if live.isdisjoint(binders):
            if not has_effects(eqn):
                continue
        elif primitive.holds_jaxprs and (rule := dce_rules.find(primitive)) is not None:
            eqn, _ = rule(eqn, [*map(live.__contains__, binders)])
        kept.append(eqn)
        live.update(eqn.inputs)
    kept.reverse()
    return kept, live


def surely_read(eqns: Sequence[JaxprEqn], outs: Sequence[Value]) -> set[Value]:
    """Return atoms that `outs` need for certain, in a list of equations none of which is dead.

    The operands of an equation that holds jaxprs count only where all of its results are needed.
    """
    read = set(outs)
    for eqn in reversed(eqns):
        nested = eqn.primitive in dce_rules
        binders = eqn.out_binders
        if read.issuperset(binders) if nested else not read.isdisjoint(binders):
            read.update(eqn.inputs)
    return read


def rebound(
    jaxpr: Jaxpr,
    in_binders: Sequence[Var] | None = None,
    outs: Sequence[Value] | None = None,
    const_binders: Sequence[Var] | None = None,
    before: Sequence[JaxprEqn] = (),
) -> Jaxpr:
    """Return a jaxpr of the same equations with other binders, more results, or equations in front
    whose results they read.

    All old results have to be among the new ones. If it is known that no equation of the old jaxpr
    is dead, this is recorded for the new one too.
    """
    made = new_jaxpr(
        jaxpr.in_binders if in_binders is None else list(in_binders),
        [*before, *jaxpr.eqns] if before else jaxpr.eqns,
        jaxpr.outs if outs is None else list(outs),
        jaxpr.const_binders if const_binders is None else const_binders,
        jaxpr.span,
    )
    live = live_atoms.find(jaxpr)
    if live is not None:
        new = outs or before
        live_atoms.keep(made, live.union(made.outs, *[e.inputs for e in before]) if new else live)
    return made


def dce_body(closed: ClosedJaxpr, used_outs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """Apply `dce_jaxpr` to a jaxpr in a param, once for each `used_outs`.

    Returns:
      The smaller jaxpr, all arguments and constants of which stay, and for each argument whether it
        is read.
    """
    key = tuple(used_outs)
    found = _SMALLER_BODY.find(closed, key)
    if found is None:
        smaller, _ = dce_jaxpr(closed.jaxpr, used_outs, keep_inputs=True)
        live = live_atoms.find(smaller) or set()
        read = [*map(live.__contains__, smaller.in_binders)]
        found = _SMALLER_BODY.keep(closed, key, (smaller, read))
    return found


_SMALLER_BODY = MemoTable[tuple[Jaxpr, list[bool]]]("body without dead equations")
_SMALLER_CALL = MemoTable[tuple[ClosedJaxpr, list[bool]]]("call without dead equations")


def prune_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Drop the constants that nothing reads."""
    jaxpr = closed.jaxpr
    if not closed.consts:
        return closed
    read = live_atoms.find(jaxpr)
    if read is None:
        read = {x for e in jaxpr.eqns for x in e.inputs if type(x) is not Lit}
        read.update(x for x in jaxpr.outs if type(x) is not Lit)
    kept = [(v, c) for v, c in zip(jaxpr.const_binders, closed.consts, strict=True) if v in read]
    if len(kept) == len(closed.consts):
        return closed
    smaller = rebound(jaxpr, const_binders=[v for v, _ in kept])
    return verified(ClosedJaxpr(smaller, [c for _, c in kept]))


def dce_closed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program without dead equations; all arguments stay, constants only when they are read."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, keep_inputs=True)
    return prune_consts(ClosedJaxpr(jaxpr, closed.consts))


def call_dce_rule(param: str = "jaxpr") -> Callable[..., tuple[JaxprEqn, list[bool]]]:
    """Return the `dce` rule of a primitive that applies the jaxpr in `param` to all of its operands."""

    def rule(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
        closed: ClosedJaxpr = eqn.params[param]

        def make() -> tuple[ClosedJaxpr, list[bool]]:
            jaxpr, used = dce_jaxpr(closed.jaxpr, used_outs)
            same = len(jaxpr.eqns) == len(closed.eqns) and all(used) and all(used_outs)
            return closed if same else prune_consts(ClosedJaxpr(jaxpr, closed.consts)), used

        smaller, used_ins = _SMALLER_CALL.of(closed, tuple(used_outs), make)
        if smaller is closed:
            return eqn, used_ins
        inputs = [x for x, u in zip(eqn.inputs, used_ins, strict=True) if u]
        binders: list[Var] = [v for v, u in zip(eqn.out_binders, used_outs, strict=True) if u]
        params = {**eqn.params, param: smaller}
        return eqn.replace(inputs=inputs, out_binders=binders, params=params), used_ins

    return rule
