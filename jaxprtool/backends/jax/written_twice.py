"""Jaxprs of JAX's that a text writes out more than once.

JAX writes out a jaxpr inside a named tuple (the functions of a linear solve) wherever it occurs. One that occurs again, or is
long, is a definition at the head of the text too, to which no name refers: what is written out is the same jaxpr.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.print import format_standalone
from jaxprtool.syntax.sharing import inside_values

__all__ = ["definitions_written_out"]


def definitions_written_out(program: ClosedJaxpr) -> dict[Jaxpr, ClosedJaxpr]:
    """For jaxprs inside values, the definitions of the program's text that they are.

    Where several definitions have one text, the jaxprs of that text are each of them in turn.
    """
    written = program.jaxpr.written
    defined = [] if written is None else list(written.definitions.values())
    eqns = list(_holding_jaxprs([program, *defined])) if defined else []
    inside = [c for eqn in eqns for c in inside_values(eqn)]
    if not inside:
        return {}
    named = {c.jaxpr for eqn in eqns for c in sub_jaxprs(eqn)} - {c.jaxpr for c in inside}
    texts: dict[str, list[ClosedJaxpr]] = {}
    for closed in defined:
        if closed.jaxpr not in named:
            texts.setdefault(format_standalone(closed), []).append(closed)
    turns: dict[str, Iterator[ClosedJaxpr]] = {text: cycle(found) for text, found in texts.items()}
    found: dict[Jaxpr, ClosedJaxpr] = {}
    for closed in dict.fromkeys(inside):
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
