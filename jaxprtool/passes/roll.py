"""roll: turn loops that were written out iteration by iteration into scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import count_eqns
from jaxprtool.passes.bodies import NewBody, in_each_body
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.repeats.repetitions import stretches
from jaxprtool.passes.repeats.rolled_scan import RolledScan, Unfit, Uses
from jaxprtool.passes.repeats.turns import Turns

__all__ = ["roll"]

_MOST_ROUNDS = 8  # levels of nested loops, at most
_MOST_TRIALS = 3


@define_pass(
    "roll", "bits types no-more-equations idempotent linear-time", {"turns": 2, "saved": 0}
)
def roll(program: ClosedJaxpr, *, turns: int = 4, saved: int = 8) -> ClosedJaxpr:
    """Make a scan of equations that repeat at least so many turns one after the other, where that saves so many equations.

    The reverse of `unroll`, at any depth. The equations of a turn are equal but for their operands. What a turn reads of turns
    before it is the carry; what is another one in each turn (slices `x[i]`, literals, other arrays, which are stacked) is xs; what is
    read after the loop of other turns than the last is ys. Equations with effects stay.
    """
    keys, least = Keys(), max(turns, 2)

    def rolled(closed: ClosedJaxpr) -> ClosedJaxpr:
        if len(closed.eqns) <= saved:
            return closed
        rolling = _Rolling(keys, least, saved, rolled)
        made = rolling.of(closed)
        if not rolling.takes_rows:
            return made
        refused: set[JaxprEqn] = set()
        for _ in range(_MOST_TRIALS):
            rolling = _Rolling(keys, least, saved, rolled, refused)
            made = min(made, rolling.of(closed), key=lambda c: count_eqns(c.jaxpr))
            if not rolling.disappointing:
                break
            refused |= rolling.disappointing
        return made

    return in_each_body(program, rolled)


class _Rolling:
    """The rolling of the loops of one jaxpr.

    Args:
      keys: keys of params.
      least: how many iterations a loop has at least.
      saved: how many equations a scan has to save.
      improve: is applied to the bodies of scans.
      refused: the first equations of loops that stay, while others are rolled in the hope that the
        rows of what a scan stacks are only read by other scans, so that they need not be taken one
        by one; None where nothing is hoped for.

    Attributes:
      takes_rows: whether a loop was seen whose scan would take rows one by one.
      rows: the equations that take rows for scans.
      chosen: the scans.
      disappointing: the first equations of loops whose scans saved less than hoped for.
    """

    def __init__(
        self,
        keys: Keys,
        least: int,
        saved: int,
        improve: Callable[[ClosedJaxpr], ClosedJaxpr],
        refused: set[JaxprEqn] | None = None,
    ):
        self.keys, self.least, self.saved = keys, least, max(saved, 1)
        self.refused, self.improve, self.takes_rows = refused, improve, False
        self.rows: set[JaxprEqn] = set()
        self.chosen: list[RolledScan] = []
        self.disappointing: set[JaxprEqn] = set()

    def of(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with scans, and without rows that nobody reads; the same object where there are no loops."""
        old = closed
        for _ in range(_MOST_ROUNDS):
            made = self._round(closed)
            if made is closed:
                break
            closed = made
        return closed if closed is old else self._without_rows(closed)

    def _round(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with scans in the place of loops; where several overlap, of the one that saves most."""
        scans = self._scans(closed)
        scans.sort(key=lambda scan: (-scan.saved, scan.loop.start))
        loops, taken = bytearray(len(closed.eqns)), bytearray(len(closed.eqns))
        for scan in scans:
            _mark(loops, scan)
        chosen: dict[int, RolledScan] = {}
        for scan in scans:
            start, stop = scan.loop.start, scan.loop.stop
            # what reads the results of another loop waits for the next round
            if any(loops[i] for i in scan.reads):
                continue
            if 1 in taken[start:stop] or any(taken[i] for i in scan.gone):
                continue
            chosen[start] = scan
            self.chosen.append(scan)
            self.rows.update(scan.rows)
            _mark(taken, scan)
            for i in scan.gone:
                taken[i] = 1
        return _with_scans(closed, chosen, taken) if chosen else closed

    def _scans(self, closed: ClosedJaxpr) -> list[RolledScan]:
        """Return the scans of loops that save as much as they have to."""
        of, uses = Turns(closed.eqns, self.keys, self.least, self.rows), Uses(closed.jaxpr)
        found: list[RolledScan] = []
        for stretch in stretches(of.kinds):
            for loop in of.loops(stretch):
                try:
                    scan = RolledScan(of, loop, uses, self.improve)
                except (Unfit, JaxprToolError):
                    continue
                self.takes_rows = self.takes_rows or bool(scan.rows)
                hoped = 0 if self.refused is None else len(scan.rows)
                if scan.turn[0] not in (self.refused or ()) and scan.saved + hoped >= self.saved:
                    found.append(scan)
        return found

    def _without_rows(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        read: set[Any] = {*closed.jaxpr.outs}
        eqns: list[JaxprEqn] = []
        for eqn in reversed(closed.eqns):
            if eqn not in self.rows or not read.isdisjoint(eqn.out_binders):
                eqns.append(eqn)
                read.update(eqn.inputs)
        left = self.rows.intersection(eqns)
        for scan in self.chosen:
            if scan.saved + sum(row not in left for row in scan.rows) < self.saved:
                self.disappointing.add(scan.turn[0])
        return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns[::-1]))


def _mark(where: bytearray, scan: RolledScan) -> None:
    where[scan.loop.start : scan.loop.stop] = b"\1" * (scan.loop.stop - scan.loop.start)


def _with_scans(
    closed: ClosedJaxpr, chosen: dict[int, RolledScan], taken: bytearray
) -> ClosedJaxpr:
    """Return the program with scans at the indices of equations, and without the equations that are taken."""
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
