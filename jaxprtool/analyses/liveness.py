"""How much memory the values of a program take at one time, in the order of its equations and in a better one.

Arguments and constants are there from beginning to end, since whoever calls the program holds them; other values from the
equation that makes them to the last one that reads them, and results to the end. Each value has memory of its own: a
compiler that fuses equations or lets results take the place of operands needs less. Of a call the results are those that its
jaxpr makes; the body of a loop has its values beside the results of the loop, and a jaxpr that runs on several devices at the same
time has them on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.schedules import reordered
from jaxprtool.analyses.tally import Nested
from jaxprtool.interpreters.runs import Run
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["Lifetime", "Memory", "Peak", "lifetimes", "memory", "size_of"]


def size_of(aval: Any) -> int:
    """The bytes of a value; of a reference those of its cell."""
    found = getattr(aval, "nbytes", None)
    return size_of(aval.inner) if found is None and hasattr(aval, "inner") else found or 0


class Peak(NamedTuple):
    """The most memory that the values made in a jaxpr take at one time.

    Attributes:
      nbytes: the bytes.
      index: the equation during which that is so; -1 where the jaxpr has none.
      run: what that equation runs then, or None.
    """

    nbytes: int
    index: int
    run: Run | None


class Lifetime(NamedTuple):
    """A value of a jaxpr.

    Attributes:
      variable: the variable.
      nbytes: its size.
      made: the position of the equation that makes it; -1 for an argument or a constant.
      last: the position of the last equation that reads it; the number of equations where it is there to the end.
    """

    variable: Any
    nbytes: int
    made: int
    last: int


class Memory(NamedTuple):
    """The memory that a program takes.

    Attributes:
      held: bytes of arguments and constants.
      peaks: for each jaxpr that runs, what its values take at most, without its arguments.
      written: bytes at the peak, in the order of the equations.
      reordered: bytes at the peak in the best order that was found.
    """

    held: int
    peaks: dict[Jaxpr, Peak]
    written: int
    reordered: int


def memory(program: ClosedJaxpr, order: dict[Jaxpr, Nested]) -> Memory:
    """The memory that a program takes; `order` is `tally.in_order` of it."""
    peaks: dict[Jaxpr, Peak] = {}
    inside: dict[Jaxpr, int] = {}
    best: dict[Jaxpr, int] = {}
    for jaxpr, nested in order.items():
        own = [sum([size_of(v.aval) for v in eqn.out_binders]) for eqn in jaxpr.eqns]
        runs_of = dict(nested)
        peaks[jaxpr] = peak = _peak(jaxpr, own, runs_of, inside)
        inside[jaxpr] = peak.nbytes
        extra = [_extra(eqn, n, runs_of, best)[0] for eqn, n in zip(jaxpr.eqns, own, strict=True)]
        best[jaxpr] = min(peak.nbytes, reordered(jaxpr, own, extra, size_of))
    jaxpr = program.jaxpr
    held = sum([size_of(v.aval) for v in jaxpr.all_binders])
    return Memory(held, peaks, held + peaks[jaxpr].nbytes, held + best[jaxpr])


def _extra(
    eqn: JaxprEqn, own: int, runs_of: dict[JaxprEqn, Sequence[Run]], inside: dict[Jaxpr, int]
) -> tuple[int, Run | None]:
    """The bytes that an equation takes while it runs besides its results, and which of its jaxprs takes them."""
    runs = runs_of.get(eqn)
    if not runs:
        return 0, None
    run = max(runs, key=lambda r: inside[r.jaxpr.jaxpr] * r.devices)
    most = inside[run.jaxpr.jaxpr] * run.devices
    if all(r.times == r.devices and not r.turns for r in runs):
        most = max(most - own, 0)  # what is made inside last are the results
    return most, run


def _peak(
    jaxpr: Jaxpr,
    own: Sequence[int],
    runs_of: dict[JaxprEqn, Sequence[Run]],
    inside: dict[Jaxpr, int],
) -> Peak:
    dies = [0] * (len(jaxpr.eqns) + 1)
    for v, i in last_uses(jaxpr).items():
        dies[i] += size_of(v.aval)
    alive, found = 0, Peak(0, -1, None)
    for i, eqn in enumerate(jaxpr.eqns):
        alive += own[i]
        extra, run = _extra(eqn, own[i], runs_of, inside) if runs_of else (0, None)
        if alive + extra > found.nbytes or found.index < 0:
            found = Peak(alive + extra, i, run)
        alive -= dies[i]
    return found


def last_uses(jaxpr: Jaxpr) -> dict[Any, int]:
    """For each value that an equation makes, the last equation that reads it; the number of equations for a result."""
    last: dict[Any, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for x in eqn.inputs:
            if x in last:
                last[x] = i
        for v in eqn.out_binders:
            last[v] = i
    for x in jaxpr.outs:
        if x in last:
            last[x] = len(jaxpr.eqns)
    return last


def lifetimes(jaxpr: Jaxpr) -> list[Lifetime]:
    """The values of a jaxpr, arguments and constants first, then in the order in which they are made."""
    n, last = len(jaxpr.eqns), last_uses(jaxpr)
    found = [Lifetime(v, size_of(v.aval), -1, n) for v in jaxpr.all_binders]
    for i, eqn in enumerate(jaxpr.eqns):
        found += [Lifetime(v, size_of(v.aval), i, last[v]) for v in eqn.out_binders]
    return found
