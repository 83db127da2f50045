"""Find jaxprs and variables that a text has more than once, and that are one object in JAX.

JAX writes out a jaxpr inside a named tuple (the functions of a linear solve) wherever it occurs. If
it occurs again, or is long, it is also a definition at the head of the text, to which no name
refers. A jaxpr that JAX takes from another one, for partial evaluation or without dead code, shares
variables with that one.
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
    """What occurs more than once in a text and is one object in JAX.

    Attributes:
      jaxprs: jaxpr that the text writes out -> the definition that it is.
      variables: variable -> the first variable of its name, where one name occurs in several
        jaxprs.
    """

    jaxprs: Mapping[Jaxpr, ClosedJaxpr] = FrozenDict()
    variables: Mapping[Var, Var] = FrozenDict()


def written_twice(program: ClosedJaxpr) -> Twice:
    """Return what the text that a program was read from has more than once."""
    written = program.jaxpr.written
    if written is None or not written.dialect:
        return Twice()
    variables = Printer(program, False, 80).same_variables()
    defined = list(written.definitions.values())
    if not defined:
        return Twice(variables=variables)
    return Twice(_inside_values(defined, list(_holding_jaxprs([program, *defined]))), variables)


def _inside_values(defined: list[ClosedJaxpr], eqns: list[JaxprEqn]) -> dict[Jaxpr, ClosedJaxpr]:
    """Return the jaxprs inside values, or called by these, that are definitions, each with its definition."""
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
        else:  # its callees may be written twice
            below = dict.fromkeys(c for eqn in closed.jaxpr.eqns for c in sub_jaxprs(eqn))
            pending += [c for c in reversed(below) if c not in seen]
            seen.update(below)
    return found


class _Unnamed:
    """The definitions to which no name refers, in the order in which the program first holds them.

    Several may have the same text. A jaxpr with this text is the next definition that was not met
    yet, if that has the text; else the one that was met least often, since the program holds each
    about equally often.
    """

    def __init__(self, defined: list[ClosedJaxpr]):
        self.defined = defined
        self.met: dict[ClosedJaxpr, int] = {}  # jaxpr -> number of occurrences, the latest last
        self.same: dict[str, list[ClosedJaxpr]] = {}
        for closed in defined:
            self.same.setdefault(format_standalone(closed), []).append(closed)

    def meet(self, closed: ClosedJaxpr) -> ClosedJaxpr | None:
        """Return the definition that a written-out jaxpr is; None where it is none."""
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
    """Return the equations that hold jaxprs, those of each jaxpr once."""
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
