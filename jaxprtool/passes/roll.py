"""roll: loops that were written out turn by turn become scans."""

from __future__ import annotations

from collections.abc import Callable

from jaxprtool.interpreters.equation_keys import Keys
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.bodies import NewBody, in_each_body
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.repetitions import stretches
from jaxprtool.passes.rolled_scan import RolledScan, Unfit, Uses
from jaxprtool.passes.turns import Turns

__all__ = ["roll"]

_MOST_ROUNDS = 8  # as many loops may stand inside of each other


@define_pass("roll", "bits types no-more-equations idempotent linear-time")
def roll(program: ClosedJaxpr, *, turns: int = 4, saved: int = 8) -> ClosedJaxpr:
    """Make a scan of equations that repeat at least so many turns one after the other, where that saves so many equations.

    The reverse of `unroll`, at any depth. The equations of a turn are equal but for their operands. What a turn reads of turns
    before it is the carry; what is another one in each turn (slices `x[i]`, literals, other arrays, which are stacked) is xs; what is
    read after the loop of other turns than the last is ys. Equations with effects stay.
    """
    keys, least, saved = Keys(), max(turns, 2), max(saved, 1)

    def rolled(closed: ClosedJaxpr) -> ClosedJaxpr:
        for _ in range(_MOST_ROUNDS):
            made = _round(closed, keys, least, saved, rolled)
            if made is closed:
                break
            closed = made
        return closed

    return in_each_body(program, rolled)


def _round(
    closed: ClosedJaxpr,
    keys: Keys,
    least: int,
    saved: int,
    improve: Callable[[ClosedJaxpr], ClosedJaxpr],
) -> ClosedJaxpr:
    """The program with scans in the place of loops; where several overlap, of the one that saves most."""
    if len(closed.eqns) <= saved:
        return closed
    of, uses = Turns(closed.eqns, keys, least), Uses(closed.jaxpr)
    scans: list[RolledScan] = []
    for stretch in stretches(of.kinds):
        for loop in of.loops(stretch):
            try:
                scans.append(RolledScan(of, loop, uses, improve))
            except (Unfit, JaxprToolError):
                continue
    scans.sort(key=lambda scan: (-scan.saved, scan.loop.start))
    taken = bytearray(len(closed.eqns))
    chosen: dict[int, RolledScan] = {}
    for scan in scans:
        start, stop = scan.loop.start, scan.loop.stop
        if scan.saved < saved or 1 in taken[start:stop] or any(taken[i] for i in scan.gone):
            continue
        chosen[start] = scan
        taken[start:stop] = b"\1" * (stop - start)
        for i in scan.gone:
            taken[i] = 1
    return _with_scans(closed, chosen, taken) if chosen else closed


def _with_scans(
    closed: ClosedJaxpr, chosen: dict[int, RolledScan], taken: bytearray
) -> ClosedJaxpr:
    """The program with scans at positions of equations, and without those that are taken."""
    body = NewBody(closed)
    for i, eqn in enumerate(closed.eqns):
        scan = chosen.get(i)
        if scan is not None:
            for v, value in scan.consts:
                body.add_constant(v, value)
            for new in scan.eqns:
                body.add(new)
        if taken[i]:
            body.drop()
        else:
            body.add(eqn)
    return body.result()
