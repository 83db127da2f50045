"""Which matches of one pattern feed a match of another: their results reach it as operands, through other equations.

`Flow` is computed backwards. Each jaxpr gets a summary: for each of its arguments a bit mask of the
results that it reaches, and whether it reaches the second pattern inside. So a jaxpr that is used
many times is analysed once. Then, from the program inwards, each jaxpr gets the results that reach
the second pattern in one of its uses. What decides (a condition, an index) reaches all results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxprtool.analyses.asking.walk import Held, in_order
from jaxprtool.analyses.passing import arguments_of, carried
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit

__all__ = ["Flow"]

_SINK = 1  # the bit for reaching the second pattern; the bit for result i is 1 << (i + 1)
_Reach = dict[Any, int]


class Flow:
    """Which values of a program reach some equations.

    Args:
      root: the program.
      sinks: the equations.
    """

    def __init__(self, root: Jaxpr, sinks: Iterable[JaxprEqn]):
        self._order = in_order(root)
        self._sinks = {id(eqn) for eqn in sinks}
        self._arguments: dict[Jaxpr, list[int]] = {}
        self._reach: dict[Jaxpr, _Reach] = {}
        for jaxpr, held in self._order.items():
            reach = self._reach[jaxpr] = self._backwards(jaxpr, held)
            self._arguments[jaxpr] = [reach.get(v, 0) for v in jaxpr.in_binders]
        self._live = self._inwards(root)

    def feeds(self, jaxpr: Jaxpr, atoms: Iterable[Any]) -> bool:
        """Whether one of some values of a jaxpr reaches one of the equations, in some use of the jaxpr."""
        reach, live = self._reach[jaxpr], self._live.get(jaxpr, 0) | _SINK
        return any(reach.get(x, 0) & live for x in atoms if type(x) is not Lit)

    def _backwards(self, jaxpr: Jaxpr, held: Held) -> _Reach:
        """Return for each variable of a jaxpr the bit mask of what it reaches."""
        reach: _Reach = {}
        for i, x in enumerate(jaxpr.outs):
            if type(x) is not Lit:
                reach[x] = reach.get(x, 0) | 1 << (i + 1)
        calls = {id(eqn): runs for _, eqn, runs in held}
        for eqn in reversed(jaxpr.eqns):
            whole = 0
            for v in eqn.out_binders:
                whole |= reach.get(v, 0)
            sink = _SINK if id(eqn) in self._sinks else 0
            if id(eqn) in calls:
                results = [reach.get(v, 0) for v in eqn.out_binders]
                operands = self._of_call(eqn, calls[id(eqn)], results, whole)
            elif whole | sink:
                operands = [whole] * len(eqn.inputs)
            else:
                continue
            for x, bits in zip(eqn.inputs, operands, strict=True):
                if type(x) is not Lit and bits | sink:
                    reach[x] = reach.get(x, 0) | bits | sink
        return reach

    def _of_call(
        self, eqn: JaxprEqn, runs: Sequence[Run], results: Sequence[int], whole: int
    ) -> list[int]:
        """Return the bit mask of what each operand reaches of an equation that runs jaxprs.

        Args:
          eqn: the equation.
          runs: what it runs.
          results: the bit mask of each of its results.
          whole: the union of these.
        """
        n = len(eqn.inputs)
        operands: list[int | None] = [None] * n
        for run in runs:
            inner = run.jaxpr.jaxpr
            arguments = _with_turns(self._arguments[inner], inner, eqn, run)
            outs = _results_of(inner, results, whole)
            for k, i in enumerate(arguments_of(inner, eqn)):
                if i is not None:
                    bits = _translated(arguments[i], outs)
                    operands[k] = (operands[k] or 0) | bits
        return [whole if bits is None else bits for bits in operands]

    def _inwards(self, root: Jaxpr) -> dict[Jaxpr, int]:
        """Return for each jaxpr the results that reach the second pattern outside of it."""
        live: dict[Jaxpr, int] = {root: 0}
        for jaxpr in reversed(self._order):
            reach, out = self._reach[jaxpr], live.get(jaxpr, 0) | _SINK
            for _, eqn, runs in self._order[jaxpr]:
                reached = [_SINK if reach.get(v, 0) & out else 0 for v in eqn.out_binders]
                whole = max(reached, default=0)
                for run in runs:
                    inner = run.jaxpr.jaxpr
                    outs = _results_of(inner, reached, whole)
                    bits = sum(1 << (j + 1) for j, x in enumerate(outs) if x)
                    bits = self._fed_back(bits, inner, eqn, run)
                    live[inner] = live.get(inner, 0) | bits
        return live

    def _fed_back(self, bits: int, inner: Jaxpr, eqn: JaxprEqn, run: Run) -> int:
        """Add to the results of a loop's body those that reach the second pattern in a later iteration."""
        in_turns = carried(eqn, run)
        if not in_turns:
            return bits
        arguments = _with_turns(self._arguments[inner], inner, eqn, run)
        for j, i in in_turns:
            if arguments[i] & (bits | _SINK):
                bits |= 1 << (j + 1)
        return bits


def _translated(bits: int, outs: Sequence[int]) -> int:
    """Translate a bit mask over the results of a jaxpr into one outside of it.

    outs: the bit mask outside for each result.
    """
    found = bits & _SINK
    rest, j = bits >> 1, 0
    while rest:
        zeros = (rest & -rest).bit_length() - 1
        j += zeros
        found |= outs[j]
        rest >>= zeros + 1
        j += 1
    return found


def _results_of(inner: Jaxpr, results: Sequence[int], whole: int) -> Sequence[int]:
    """Return the bit mask outside for each result of a jaxpr: that of the equation's result, or all of them where they do not correspond."""
    return results if len(inner.outs) == len(results) else [whole] * len(inner.outs)


def _with_turns(arguments: list[int], inner: Jaxpr, eqn: JaxprEqn, run: Run) -> list[int]:
    """Return what the arguments of a loop's body reach in this iteration and in later ones."""
    in_turns = carried(eqn, run)
    if not in_turns:
        return arguments
    found = [*arguments]
    for j, i in in_turns:  # as Warshall's algorithm closes a relation
        bit = 1 << (j + 1)
        for k, bits in enumerate(found):
            if bits & bit:
                found[k] = bits | found[i]
    return found
