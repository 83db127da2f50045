"""Remove from two programs what only one of them computes in addition: copies of equations, and
values that nothing reads.
"""

from __future__ import annotations

from dataclasses import replace

from jaxprtool.analyses.comparing.comparison import First, Written
from jaxprtool.analyses.places import Place
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.reuse.copies import copies_of
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns, map_programs, sub_jaxprs
from jaxprtool.passes.cse import cse

__all__ = ["with_copies", "without_surplus"]

_MOST = 100_000  # equations of a program in which copies are looked for


def without_surplus(a: ClosedJaxpr, b: ClosedJaxpr) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Return the programs without unread values, and without copies of equations where one program has none.

    Large programs are returned as they are. Loops that differ in unread results would not
    correspond result by result. The first of several copies stays, at its place. Where both
    programs have copies, the copies are counterparts, and stay.
    """
    return _without_surplus(a, b)[0]


def with_copies(first: First, a: ClosedJaxpr, b: ClosedJaxpr) -> First:
    """Return the first difference, with the copies of its equations that were left out."""
    if not _without_surplus(a, b)[1]:
        return first
    found = [
        [*before, *_copies(program, place)]
        for before, program, place in zip(first.among, (a, b), (first.a, first.b), strict=True)
    ]
    return replace(first, among=(found[0], found[1]))


def _copies(program: ClosedJaxpr, place: Place | Written | None) -> list[Place]:
    """Return the equations beside one that compute the same again."""
    if not isinstance(place, Place):
        return []
    inside = (inner.jaxpr for eqn in all_eqns(program.jaxpr) for inner in sub_jaxprs(eqn))
    for jaxpr in (program.jaxpr, *inside):
        if any(eqn is place.eqn for eqn in jaxpr.eqns):
            first = copies_of(jaxpr.eqns).first
            return [place._replace(eqn=e) for e, one in first.items() if one is place.eqn]
    return []


Programs = tuple[ClosedJaxpr, ClosedJaxpr]


def _without_surplus(a: ClosedJaxpr, b: ClosedJaxpr) -> tuple[Programs, bool]:
    """Return the programs of `without_surplus`, and whether copies of equations were left out."""
    if max(count_eqns(a.jaxpr), count_eqns(b.jaxpr)) > _MOST or _count(a) == _count(b):
        return (a, b), False
    live = _live(a), _live(b)
    sizes = count_eqns(live[0].jaxpr), count_eqns(live[1].jaxpr)
    if sizes[0] == sizes[1]:
        return live, False
    merged = cse(live[0]), cse(live[1])
    fewer = [n > count_eqns(p.jaxpr) for n, p in zip(sizes, merged, strict=True)]
    return (merged, True) if fewer[0] != fewer[1] else (live, False)


def _count(program: ClosedJaxpr) -> int:
    """Count equations and their results, at any depth: a loop may lack a result that nothing reads."""
    return sum(1 + len(e.out_binders) for e in all_eqns(program.jaxpr))


def _live(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without dead equations, at any depth; its arguments and constants stay,
    and those of inner jaxprs.
    """
    return map_programs(_without_dead(program), _without_dead)


def _without_dead(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, _ = dce_jaxpr(program.jaxpr, keep_inputs=True)
    return program if jaxpr is program.jaxpr else program.replace(jaxpr=jaxpr)
