"""Two programs of which one lacks what the other computes several times, or for nothing."""

from __future__ import annotations

from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns, map_programs
from jaxprtool.passes.cse import cse

__all__ = ["without_surplus"]

_MOST = 100_000  # equations of a program in which copies are looked for


def without_surplus(a: ClosedJaxpr, b: ClosedJaxpr) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The programs without what nobody reads, and without copies of equations where one program has none; as they are where large.

    Loops that differ in results which nobody reads would not correspond result by result. The first of several copies stays, at
    its place. Where both programs have copies these have counterparts.
    """
    if max(count_eqns(a.jaxpr), count_eqns(b.jaxpr)) > _MOST or _count(a) == _count(b):
        return a, b
    live = _live(a), _live(b)
    sizes = count_eqns(live[0].jaxpr), count_eqns(live[1].jaxpr)
    if sizes[0] == sizes[1]:
        return live
    merged = cse(live[0]), cse(live[1])
    fewer = [n > count_eqns(p.jaxpr) for n, p in zip(sizes, merged, strict=True)]
    return merged if fewer[0] != fewer[1] else live


def _count(program: ClosedJaxpr) -> int:
    """How many equations and results of these a program has, at any depth: a loop may lack a result that nobody reads."""
    return sum(1 + len(e.out_binders) for e in all_eqns(program.jaxpr))


def _live(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without dead equations, at any depth; its arguments and constants stay, and those of jaxprs that hold them."""
    return map_programs(_without_dead(program), _without_dead)


def _without_dead(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, _ = dce_jaxpr(program.jaxpr, keep_inputs=True)
    return program if jaxpr is program.jaxpr else program.replace(jaxpr=jaxpr)
