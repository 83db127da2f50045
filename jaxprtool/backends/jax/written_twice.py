"""Jaxprs and variables of JAX's that a text has more than once.

JAX writes out a jaxpr inside a named tuple (the functions of a linear solve) wherever it occurs. One that occurs again, or is
long, is a definition at the head of the text too, to which no name refers: what is written out is the same jaxpr.

A jaxpr that JAX takes from another one, for partial evaluation or without dead code, has variables of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jaxprtool.ir.frozen import FrozenDict
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.print import format_standalone
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.sharing import inside_values

__all__ = ["Twice", "written_twice"]


class Twice(NamedTuple):
    """What occurs more than once in a text and is one object of JAX's.

    Attributes:
      jaxprs: for those that the text writes out, the definitions of it that they are.
      variables: for those that have one name in several jaxprs, the first of them.
    """

    jaxprs: Mapping[Jaxpr, ClosedJaxpr] = FrozenDict()
    variables: Mapping[Var, Var] = FrozenDict()


def written_twice(program: ClosedJaxpr) -> Twice:
    """What the text that a program was read from has more than once."""
    written = program.jaxpr.written
    if written is None or not written.dialect:
        return Twice()
    variables = Printer(program, False, 80).same_variables()
    defined = list(written.definitions.values())
    if not defined:
        return Twice(variables=variables)
    return Twice(_inside_values(defined, list(_holding_jaxprs([program, *defined]))), variables)


def _inside_values(defined: list[ClosedJaxpr], eqns: list[JaxprEqn]) -> dict[Jaxpr, ClosedJaxpr]:
    """The definitions that jaxprs inside values, or what these call, are."""
    inside = dict.fromkeys(c for eqn in eqns for c in inside_values(eqn))
    if not inside:
        return {}
    named = {c.jaxpr for eqn in eqns for c in sub_jaxprs(eqn)} - {c.jaxpr for c in inside}
    unnamed = _Unnamed([c for c in defined if c.jaxpr not in named])
    found: dict[Jaxpr, ClosedJaxpr] = {}
    pending, seen = [*reversed(inside)], {*inside}
    while pending and unnamed.defined:
        closed = pending.pop()
        same = unnamed.meet(closed)
        if same is not None:
            found[closed.jaxpr] = same
        else:  # what it calls may be one
            below = dict.fromkeys(c for eqn in closed.jaxpr.eqns for c in sub_jaxprs(eqn))
            pending += [c for c in reversed(below) if c not in seen]
            seen.update(below)
    return found


class _Unnamed:
    """The definitions that no name refers to, which stand in the order in which the program holds them first.

    Several may have one text. The next one that was not met is meant where it has the text; else one that was met, each of
    which the program holds about equally often.
    """

    def __init__(self, defined: list[ClosedJaxpr]):
        self.defined = defined
        self.met: dict[ClosedJaxpr, int] = {}  # how often, the latest last
        self.same: dict[str, list[ClosedJaxpr]] = {}
        for closed in defined:
            self.same.setdefault(format_standalone(closed), []).append(closed)

    def meet(self, closed: ClosedJaxpr) -> ClosedJaxpr | None:
        """The definition that a jaxpr is, which is written out; None where it is none."""
        same = self.same.get(format_standalone(closed))
        if same is None:
            return None
        following = next((c for c in self.defined if c not in self.met), None)
        before = [c for c in reversed(self.met) if c in same]
        if following in same:
            found = following
        else:
            found = min(before, key=lambda c: self.met[c]) if before else same[0]
        self.met[found] = self.met.pop(found, 0) + 1
        return found


def _holding_jaxprs(programs: list[ClosedJaxpr]) -> Iterator[JaxprEqn]:
    """The equations that hold jaxprs, those of each jaxpr once."""
    pending = [c.jaxpr for c in reversed(programs)]
    seen = {*pending}
    while pending:
        jaxpr = pending.pop()
        for eqn in jaxpr.eqns:
            below = sub_jaxprs(eqn)
            if below:
                yield eqn
            new = [j for j in dict.fromkeys(c.jaxpr for c in below) if j not in seen]
            seen.update(new)
            pending += reversed(new)
