"""Jaxprs of JAX's that a text writes out more than once.

JAX writes out a jaxpr inside a named tuple (the functions of a linear solve) wherever it occurs. One that occurs again, or is
long, is a definition at the head of the text too, to which no name refers: what is written out is the same jaxpr. Up to 0.10.0
the definitions that a definition uses are written out inside of it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.print import format_jaxpr, format_standalone
from jaxprtool.syntax.sharing import inside_values

__all__ = ["definitions_written_out"]


def definitions_written_out(program: ClosedJaxpr) -> dict[Jaxpr, ClosedJaxpr]:
    """For jaxprs that the program's text writes out, the definitions of it that they are."""
    written = program.jaxpr.written
    defined = [] if written is None else list(written.definitions.values())
    if not defined:
        return {}
    eqns = list(_holding_jaxprs([program, *defined]))
    found = _inside_values(defined, eqns)
    by_names = {_names(c.jaxpr): c for c in defined}
    by_names.pop((), None)
    for closed in {c for eqn in eqns for c in sub_jaxprs(eqn)} - {*defined}:
        same = by_names.get(_names(closed.jaxpr))
        if same is not None and format_jaxpr(same) == format_jaxpr(closed):
            found.setdefault(closed.jaxpr, same)
    return found


def _names(jaxpr: Jaxpr) -> tuple[str | None, ...]:
    """The names of a jaxpr's variables, which the text gives to another one only where that is one, too, or a call of it."""
    binders = [jaxpr.in_binders, *[e.out_binders for e in jaxpr.eqns]]
    return tuple([v.name for vs in binders for v in vs])


def _inside_values(defined: list[ClosedJaxpr], eqns: list[JaxprEqn]) -> dict[Jaxpr, ClosedJaxpr]:
    """The definitions that jaxprs inside values are; where several have one text, each of them in turn."""
    inside = dict.fromkeys(c for eqn in eqns for c in inside_values(eqn))
    if not inside:
        return {}
    named = {c.jaxpr for eqn in eqns for c in sub_jaxprs(eqn)} - {c.jaxpr for c in inside}
    texts: dict[str, list[ClosedJaxpr]] = {}
    for closed in defined:
        if closed.jaxpr not in named:
            texts.setdefault(format_standalone(closed), []).append(closed)
    turns: dict[str, Iterator[ClosedJaxpr]] = {text: cycle(found) for text, found in texts.items()}
    found: dict[Jaxpr, ClosedJaxpr] = {}
    for closed in inside:
        turn = turns.get(format_standalone(closed)) if turns else None
        if turn is not None:
            found[closed.jaxpr] = next(turn)
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
