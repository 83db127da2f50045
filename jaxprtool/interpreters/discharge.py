"""Discharge: from programs with references to pure programs, which pass on the contents of cells as values.

Futures are discharged too: the operation that starts a computation then finishes it.

Contract of a `discharge` rule, for primitives that make, use or pass on references:

    rule(*operands, **params) -> result            (a list for multiple_results)

Operands that are references are `State`s; the rule reads and replaces their `value` and applies pure
operations otherwise. A result that is a reference is a new `State`. Jaxprs in params that take references are
made pure by `discharge_jaxpr`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain

from jaxprtool.core.bind import interpreted, set_current_trace
from jaxprtool.core.env import Env
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.dce import effect_facts
from jaxprtool.interpreters.interfaces import of_discharge, with_interface
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.ir.avals import FutureType, RefType
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.interface import argument_label
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import sub_jaxprs

__all__ = [
    "DISCHARGE_FIRST",
    "State",
    "discharge",
    "discharge_jaxpr",
    "discharge_rules",
    "has_refs",
    "pure",
    "states_of",
    "store",
    "transformable",
    "values_of",
]

discharge_rules = RuleTable("discharge")
_DISCHARGED = frozenset([RefType, FutureType])
_aval_of, _binders_of = operator.attrgetter("aval"), operator.attrgetter("out_binders")

DISCHARGE_FIRST = (
    "`jaxprtool discharge` gives the program whose arguments are what is in the cells before, "
    "and whose last results are what is in them afterwards"
)


class State:
    """A reference while it is being discharged.

    Attributes:
      value: the current contents of its cell.
      aval: the reference's type.
    """

    __slots__ = ("aval", "value")

    def __init__(self, value: Value, aval: RefType):
        self.value, self.aval = value, aval


def has_refs(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr, or one inside it, has references or futures. Not recursive, so any depth is fine."""
    found = _HAS_REFS.find(jaxpr)
    return _HAS_REFS.keep(jaxpr, _search(jaxpr)) if found is None else found


_HAS_REFS = Memo[bool]("has references")


def _search(root: Jaxpr) -> bool:
    visited: dict[Jaxpr, None] = {}
    pending = [root]
    while pending:
        jaxpr = pending.pop()
        if jaxpr in visited or _HAS_REFS.find(jaxpr) is False:
            continue
        visited[jaxpr] = None
        bound = chain(jaxpr.all_binders, *map(_binders_of, jaxpr.eqns))
        if not _DISCHARGED.isdisjoint(map(type, map(_aval_of, bound))):
            return True
        for eqn in jaxpr.eqns:
            if eqn.primitive.holds_jaxprs and effect_facts[eqn.primitive] != "inside":
                pending += [c.jaxpr for c in sub_jaxprs(eqn)]
    for jaxpr in visited:
        _HAS_REFS.keep(jaxpr, False)
    return False


def _uses_refs(eqn: JaxprEqn) -> bool:
    atoms = (*eqn.inputs, *eqn.out_binders)
    if any(type(x.aval) is FutureType for x in atoms):
        return True
    if any(type(v.aval) is RefType for v in eqn.out_binders):
        return True
    if effect_facts[eqn.primitive] == "inside":
        return False
    return any(has_refs(c.jaxpr) for c in sub_jaxprs(eqn))


def pure(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without references; the same object where it has none, or where an
    argument is a reference.
    """
    jaxpr = closed.jaxpr
    if not has_refs(jaxpr) or any(type(v.aval) is RefType for v in jaxpr.in_binders):
        return closed
    return discharge_jaxpr(closed)


def transformable(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without references, from which every transformation starts.

    Args:
      jaxpr: a program; the constants of an open one have no values.

    Raises:
      UnsupportedError: an argument is a reference. Discharge makes the value in its cell an
        argument and a result of the program, and only the caller of the transformation can say how
        those are differentiated or batched.
    """
    closed = jaxpr
    if isinstance(closed, Jaxpr):
        closed = ClosedJaxpr(closed, [None] * len(closed.const_binders))
    if not has_refs(closed.jaxpr):
        return closed
    closed = pure(closed)
    if has_refs(closed.jaxpr):
        for i, v in enumerate(closed.jaxpr.in_binders):
            if type(v.aval) is RefType:
                label = argument_label(i, v.name, closed.interface)
                fail(
                    UnsupportedError,
                    f"{label} is a reference, {v.aval}, and transformations are of values",
                    "reference-argument",
                    span=v.span,
                    help=DISCHARGE_FIRST,
                )
    return closed


def discharge(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with values in the place of references; the same object where there are none.

    Args:
      program: (a) -> (b), where some of a may be references.

    Returns:
      (a, with the contents of cells for references) -> (b, the contents of the cells of a
        afterwards).

    Raises:
      MissingRuleError: an equation uses references in a way that has no rule.
    """
    return discharge_jaxpr(program) if has_refs(program.jaxpr) else program


@deep
def discharge_jaxpr(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr with values in the place of references.

    Args:
      closed: (a) -> (b), where some of a are references.

    Returns:
      (the contents of the cells, and the rest of a) -> (b, the contents of the cells of a
        afterwards).

    Raises:
      MissingRuleError: an equation uses references and has no rule.
    """
    return _DISCHARGED_JAXPR.of(closed, lambda: _with_interface(closed, _discharge(closed)))


_DISCHARGED_JAXPR = Memo[ClosedJaxpr]("discharged")


def _with_interface(closed: ClosedJaxpr, made: ClosedJaxpr) -> ClosedJaxpr:
    if closed.interface is None:
        return made
    is_ref = [type(v.aval) is RefType for v in closed.jaxpr.in_binders]
    return with_interface(made, of_discharge(closed.interface, is_ref))


def _discharge(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    trace = JaxprTrace()
    env = Env(zip(jaxpr.const_binders, trace.new_consts(closed), strict=True))
    states: list[State] = []
    with set_current_trace(trace):
        for v in jaxpr.in_binders:
            if type(v.aval) is RefType:
                held = v.aval.held
                if held is None:
                    message = f"discharge: {v.aval} has no pure form, as references to arrays have"
                    fail(UnsupportedError, message, "unsupported-type", span=v.span)
                env[v] = State(trace.new_input(held), v.aval)
                states.append(env[v])
            else:
                env[v] = trace.new_input(v.aval)
        for eqn in interpreted(jaxpr.eqns):
            ins = env.read(eqn.inputs)
            env.write(eqn.out_binders, _apply(trace, eqn, ins))
    outs = env.read(jaxpr.outs)
    if any(type(x) is State for x in outs):
        message = "discharge: a result of the program is a reference, which has no pure form"
        fail(UnsupportedError, message, "unsupported-type", span=jaxpr.span)
    return trace.build([*outs, *[s.value for s in states]])


def _apply(trace: JaxprTrace, eqn: JaxprEqn, ins: Sequence[Value]) -> list[Value]:
    if not any(type(x) is State for x in ins) and not _uses_refs(eqn):
        return trace.copy_eqn(eqn, ins)
    out = discharge_rules[eqn.primitive](*ins, **eqn.params)
    return out if eqn.primitive.multiple_results else [out]


def values_of(operands: Sequence[Value]) -> list[Value]:
    """Return the operands with the contents of each cell in its place."""
    return [x.value if type(x) is State else x for x in operands]


def states_of(operands: Sequence[Value]) -> list[State]:
    """Return the cells among the operands."""
    return [x for x in operands if type(x) is State]


def store(states: Sequence[State], values: Sequence[Value]) -> None:
    """Put values into cells."""
    for state, value in zip(states, values, strict=True):
        state.value = value
