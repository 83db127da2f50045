"""How much memory the values of a program take at one time, in the order of its equations and in a better one.

Arguments and constants live from beginning to end, since the caller of the program holds them.
Other values live from the equation that computes them to the last one that reads them, and results
to the end. Each value has memory of its own: a compiler that fuses equations, or lets results reuse
the memory of operands, needs less. The results of a call are those that its jaxpr computes. The
body of a loop has its values besides the results of the loop, and a jaxpr that runs on several
devices at the same time has them on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.fixed_sizes import check_sizes
from jaxprtool.analyses.counting.tally import Nested
from jaxprtool.analyses.memory.schedules import least_bytes
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["Lifetime", "Memory", "Peak", "Sizes", "best_order", "last_uses", "lifetimes", "memory"]


class Peak(NamedTuple):
    """The most memory that the values computed in a jaxpr take at one time.

    Attributes:
      nbytes: the bytes.
      at: the index of the equation during which they are taken; -1 where the jaxpr has none.
      run: the nested jaxpr that takes the most of them then, or None.
    """

    nbytes: int
    at: int
    run: Run | None


class Lifetime(NamedTuple):
    """The lifetime of a value of a jaxpr.

    Attributes:
      variable: the variable.
      nbytes: its size.
      made: the index of the equation that computes it; -1 for an argument or a constant.
      last: the index of the last equation that reads it; the number of equations where it lives to
        the end.
    """

    variable: Any
    nbytes: int
    made: int
    last: int


class Memory(NamedTuple):
    """The memory that a program takes in the order of its equations.

    Attributes:
      held: the bytes of arguments and constants.
      peaks: the peak of each jaxpr that runs, without its arguments.
      nbytes: the bytes at the peak of the program, arguments and constants included.
    """

    held: int
    peaks: dict[Jaxpr, Peak]
    nbytes: int


class Sizes(dict[Any, int]):
    """The bytes of a value, by its type; for a reference those of its cell."""

    def __missing__(self, aval: Any) -> int:
        found = getattr(aval, "nbytes", None)
        size = self[aval.inner] if found is None and hasattr(aval, "inner") else found or 0
        self[aval] = size
        return size


def memory(program: ClosedJaxpr, order: dict[Jaxpr, Nested]) -> Memory:
    """Return the memory that a program takes. Raises UnsupportedError where a size is no number.

    order: the program's `tally.in_order`.
    """
    check_sizes(program)
    sizes, peaks, inside = Sizes(), {}, {}
    for jaxpr, nested in order.items():
        peaks[jaxpr] = peak = _peak(jaxpr, sizes, dict(nested), inside)
        inside[jaxpr] = peak.nbytes
    held = sum([sizes[v.aval] for v in program.jaxpr.all_binders])
    return Memory(held, peaks, held + inside[program.jaxpr])


def best_order(program: ClosedJaxpr, order: dict[Jaxpr, Nested], written: Memory) -> int:
    """Return the bytes at the peak where the equations of each jaxpr are in the best order that is found.

    Args:
      program: the program.
      order: the program's `tally.in_order`.
      written: the memory that it takes in the order of its equations.
    """
    sizes, best = Sizes(), {}
    for jaxpr, nested in order.items():
        runs_of = dict(nested)
        own = [sum([sizes[v.aval] for v in eqn.out_binders]) for eqn in jaxpr.eqns]
        pairs = zip(jaxpr.eqns, own, strict=True)
        extra = [_extra(eqn, n, runs_of, best)[0] for eqn, n in pairs] if nested else [0] * len(own)
        least = least_bytes(jaxpr, own, extra, sizes)
        best[jaxpr] = min(written.peaks[jaxpr].nbytes, least)
    return written.held + best[program.jaxpr]


def _extra(
    eqn: JaxprEqn, own: int, runs_of: dict[JaxprEqn, Sequence[Run]], inside: dict[Jaxpr, int]
) -> tuple[int, Run | None]:
    """Return the bytes that an equation takes while it runs, besides its results, and the nested jaxpr that takes most of them."""
    runs = runs_of.get(eqn)
    if not runs:
        return 0, None
    run = max(runs, key=lambda r: inside[r.jaxpr.jaxpr] * r.devices)
    most = inside[run.jaxpr.jaxpr] * run.devices
    if all(r.times == r.devices and not r.turns for r in runs):
        most = max(most - own, 0)  # the values computed last inside are the results
    return most, run


def _peak(
    jaxpr: Jaxpr,
    sizes: Sizes,
    runs_of: dict[JaxprEqn, Sequence[Run]],
    inside: dict[Jaxpr, int],
) -> Peak:
    dies = [0] * (len(jaxpr.eqns) + 1)
    for v, i in last_uses(jaxpr).items():
        dies[i] += sizes[v.aval]
    alive, most, at, ran = 0, -1, -1, None
    for i, eqn in enumerate(jaxpr.eqns):
        own = 0
        for v in eqn.out_binders:
            own += sizes[v.aval]
        alive += own
        if runs_of and eqn in runs_of:
            extra, run = _extra(eqn, own, runs_of, inside)
            if alive + extra > most:
                most, at, ran = alive + extra, i, run
        elif alive > most:
            most, at, ran = alive, i, None
        alive -= dies[i]
    return Peak(max(most, 0), at, ran)


def last_uses(jaxpr: Jaxpr) -> dict[Any, int]:
    """Return for each variable that an equation binds the index of the last equation that reads it.

    For a result of the jaxpr, it is the number of equations; for a variable that nobody reads, the
    equation that binds it.
    """
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
    """Return the lifetimes of a jaxpr's values: arguments and constants first, then in the order in which they are computed."""
    n, last, sizes = len(jaxpr.eqns), last_uses(jaxpr), Sizes()
    found = [Lifetime(v, sizes[v.aval], -1, n) for v in jaxpr.all_binders]
    for i, eqn in enumerate(jaxpr.eqns):
        found += [Lifetime(v, sizes[v.aval], i, last[v]) for v in eqn.out_binders]
    return found
