"""Check the use of references in a jaxpr: no returned references, no aliases, no use after the end.

Transformations and compilers replace a reference by the contents of its cell (`discharge.py`). That
is right only where each cell has one name. JAX has the same restrictions; it checks some when it
traces a function, some when it checks a jaxpr, and some when it compiles.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import chain

from jaxprtool.core.inner import inner_arguments
from jaxprtool.core.rule_table import FactTable
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.avals import AbstractType, RefType
from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Value, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.spans import Span

__all__ = ["Cells", "binds_references", "liveness_facts"]

# What an operation does with its operands: later equations must not use operands that it consumes.
liveness_facts = FactTable("liveness", "borrows", "consumes")


class _Operand(AbstractType):
    """A stand-in for a type, which records the operand of an equation that becomes an argument of an inner jaxpr."""

    __slots__ = ("position",)
    annotated = False
    position: int

    def __init__(self, position: int):
        object.__setattr__(self, "position", position)


_aval_of, _binders_of = operator.attrgetter("aval"), operator.attrgetter("out_binders")


def binds_references(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr binds a variable that is a reference; variables of inner jaxprs do not count."""
    bound = chain(jaxpr.all_binders, *map(_binders_of, jaxpr.eqns))
    return RefType in map(type, map(_aval_of, bound))


class Cells:
    """Checks the references of one jaxpr, equation by equation in their order."""

    def __init__(self) -> None:
        self.ended: dict[Var, JaxprEqn] = {}  # consumed variable -> the equation that consumed it

    def faults(self, eqn: JaxprEqn) -> Iterator[Diagnostic]:
        """Iterate over diagnostics for the references among the operands and results of an equation."""
        refs = [i for i, x in enumerate(eqn.inputs) if type(x.aval) is RefType]
        if not refs:
            return
        yield from self.uses(eqn.inputs, eqn.span)
        if eqn.primitive.holds_jaxprs:
            yield from _aliases(eqn, refs)
        elif any(v.aval == eqn.inputs[i].aval for v in eqn.out_binders for i in refs):
            yield Diagnostic(
                f"{eqn.primitive} gives a reference for one, which would be a second name of its cell",
                "aliased-reference",
                eqn.span,
            )
        ends = consumed_operands(eqn)
        again = [] if not ends else [r for r in runs_of(eqn) if r.times > 1 or r.turns]
        for i in sorted(ends):
            x = eqn.inputs[i]
            if isinstance(x, Var):
                self.ended.setdefault(x, eqn)
                if again:
                    message = f"{eqn.primitive} gives up the reference {x.name or x} in each turn"
                    yield Diagnostic(message, "dead-reference", eqn.span)

    def results(self, jaxpr: Jaxpr) -> Iterator[Diagnostic]:
        """Iterate over diagnostics for the references among the results of a jaxpr."""
        yield from self.uses(jaxpr.outs, jaxpr.span)
        for x in jaxpr.outs:
            if isinstance(x, Var) and type(x.aval) is RefType:
                yield Diagnostic(
                    f"the reference {x.name or x}:{x.aval} is returned",
                    "returned-reference",
                    x.span or jaxpr.span,
                    help="return what is in its cell, which `b:f32[3] <- r[...]` reads",
                )

    def uses(self, atoms: Sequence[Value], span: Span | None) -> Iterator[Diagnostic]:
        """Iterate over diagnostics for uses of references that an earlier equation consumed."""
        if not self.ended:
            return
        for x in atoms:
            if isinstance(x, Var) and (end := self.ended.get(x)) is not None:
                at = f" at {end.span}" if end.span else ""
                message = f"the reference {x.name or x} is used after {end.primitive}{at}"
                yield Diagnostic(message, "dead-reference", span)


def _aliases(eqn: JaxprEqn, refs: Sequence[int]) -> Iterator[Diagnostic]:
    """Iterate over diagnostics for references that a call takes twice: inside they would be two names of one cell."""
    seen: set[Value] = set()
    for i in refs:
        x = eqn.inputs[i]
        if isinstance(x, Var) and x in seen:
            yield Diagnostic(
                f"{eqn.primitive} takes the reference {x.name or x} twice, so that its cell has two names inside",
                "aliased-reference",
                eqn.span,
                help="pass it once, and use that argument in both places",
            )
        seen.add(x)


def consumed_operands(eqn: JaxprEqn) -> set[int]:
    """Return the positions of the references that an equation consumes, itself or in an inner jaxpr."""
    primitive = eqn.primitive
    if liveness_facts[primitive] == "consumes":
        return set(range(len(eqn.inputs)))
    if not primitive.holds_jaxprs:
        return set()
    avals = [_Operand(i) if type(x.aval) is RefType else x.aval for i, x in enumerate(eqn.inputs)]
    try:
        inner = inner_arguments(primitive, avals, eqn.params)
    except (TypeError, ValueError, AttributeError):
        return set()  # the params are wrong, and the type rule reports that
    return {
        t.position
        for closed, types in inner
        for i, t in enumerate(types)
        if type(t) is _Operand and i in _consumed_arguments(closed.jaxpr)
    }


@deep
def _consumed_arguments(jaxpr: Jaxpr) -> frozenset[int]:
    """Return the positions of the arguments of a jaxpr that are references and are consumed in it."""
    found = _CONSUMED.find(jaxpr)
    if found is not None:
        return found
    refs = {v: i for i, v in enumerate(jaxpr.in_binders) if type(v.aval) is RefType}
    ends = set()
    if refs:
        for eqn in jaxpr.eqns:
            if not refs.keys().isdisjoint(eqn.inputs):
                ends |= {refs[x] for i in consumed_operands(eqn) if (x := eqn.inputs[i]) in refs}
    return _CONSUMED.keep(jaxpr, frozenset(ends))


_CONSUMED = Memo[frozenset[int]]("references that are given up")
