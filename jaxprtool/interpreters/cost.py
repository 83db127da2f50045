"""Static cost of operations.

Contract of a `cost` rule:

    rule(in_avals, out_avals, **params) -> flops      (or a `Cost`, where that is not all)

Flops and transcendentals are counted as XLA's `HloCostAnalysis` counts them before it optimises: one for each element of the
result of an elementwise operation, two for a multiplication and an addition of a matrix product. Bytes are the sizes of
operands and results for all primitives (a `Cost` without bytes), except for those that run jaxprs: their bytes are those of
the jaxprs.

The number of turns of a `while` loop is not known before it runs. Its cost is that of the first test of the condition;
`Cost.loops` has the cost of a turn (see `Cost.at`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.bind import interpreted, interpreting
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import ParamValue

__all__ = [
    "FREE",
    "PER_OUTPUT",
    "Cost",
    "Costs",
    "Loop",
    "cost_eqn",
    "cost_jaxpr",
    "cost_rules",
    "maximum_cost",
]

cost_rules = RuleTable("cost")


class Loop:
    """A loop whose number of iterations is not known before it runs.

    Attributes:
      cond: the jaxpr of its condition.
      body: the jaxpr of its body.
      turn: the cost of an iteration: of the body and of the test of the condition after it.
    """

    __slots__ = ("body", "cond", "turn")

    def __init__(self, cond: ClosedJaxpr, body: ClosedJaxpr):
        self.cond, self.body = cond, body
        self.turn = cost_jaxpr(body) + cost_jaxpr(cond)


class Cost(NamedTuple):
    """The cost of an operation or a program.

    Attributes:
      flops: arithmetic operations on elements.
      transcendentals: transcendental functions of elements, which are not among the flops.
      bytes: bytes read and written; None in the result of a rule stands for those of operands and
        results.
      loops: loops with an unknown number of iterations, and how often the program runs each. Their
        iterations are not in the numbers above, which are a lower bound then.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int | None = None
    loops: tuple[tuple[Loop, int], ...] = ()

    def __add__(self, other: Value) -> Cost:
        """The cost of running one after the other."""
        moved = None if self.bytes is other.bytes is None else _int(self.bytes) + _int(other.bytes)
        loops = _merged(self.loops, other.loops) if other.loops else self.loops
        flops, transcendentals = self.flops + other.flops, self.transcendentals + other[1]
        return Cost(flops, transcendentals, moved, loops)

    def __mul__(self, times: Any) -> Cost:
        """The cost of running it `times` times."""
        moved = None if self.bytes is None else self.bytes * times
        loops = tuple([(loop, n * times) for loop, n in self.loops]) if times else ()
        return Cost(self.flops * times, self.transcendentals * times, moved, loops)

    @property
    def is_known(self) -> bool:
        """Whether the numbers are the whole cost: no loop has an unknown number of iterations."""
        return not self.loops

    def at(self, trips: int | Callable[[Loop], int]) -> Cost:
        """Return the cost where each loop makes `trips` iterations; `trips` may be a function of the loop."""
        of = trips if callable(trips) else lambda _: trips
        return _at(self, of, {})


def _int(n: int | None) -> int:
    return n or 0


def _merged(
    one: tuple[tuple[Loop, int], ...], other: tuple[tuple[Loop, int], ...]
) -> tuple[tuple[Loop, int], ...]:
    """Return the loops of both, each once."""
    times = dict(one)
    for loop, n in other:
        times[loop] = times.get(loop, 0) + n
    return tuple(times.items())


@deep
def _at(cost: Cost, trips: Callable[[Loop], int], turns: dict[Loop, Cost]) -> Cost:
    """Do as `Cost.at`; `turns` has the costs of the loops seen before."""
    total = cost._replace(loops=())
    for loop, n in cost.loops:
        turn = turns.get(loop)
        if turn is None:
            turn = turns[loop] = _at(loop.turn, trips, turns)
        total += turn * (n * trips(loop))
    return total


def maximum_cost(costs: Sequence[Cost]) -> Cost:
    """Return the largest of each number of several costs, as XLA counts branches, and the unknown
    loops of all of them.
    """
    loops: tuple[tuple[Loop, int], ...] = ()
    for cost in costs:
        loops = _merged(loops, cost.loops)
    flops, transcendentals = (max(numbers) for numbers in zip(*[c[:2] for c in costs], strict=True))
    return Cost(flops, transcendentals, max(_int(c.bytes) for c in costs), loops)


def FREE(in_avals: Sequence[Aval], out_avals: Sequence[Aval], /, **_: ParamValue) -> int:
    """The rule of an operation without arithmetic: it moves elements, or does nothing at all."""
    return 0


def PER_OUTPUT(in_avals: Sequence[Aval], out_avals: Sequence[Aval], /, **_: ParamValue) -> int:
    """The rule of one operation for each element of the results."""
    return sum(max(a.size, 0) for a in out_avals)


class Costs:
    """Computes the costs of the equations of a well-typed program, each kind of equation once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Value, ...], Cost] = {}

    def of(self, eqn: JaxprEqn) -> Cost:
        """Return `cost_eqn` of an equation.

        The program has to stay alive, since params are identified by their ids.
        """
        key = (eqn.primitive, id(eqn.params), *[x.aval for x in eqn.inputs])
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = cost_eqn(eqn)
        return found


def cost_eqn(eqn: JaxprEqn) -> Cost:
    """Return the cost of one equation; the cost of a call is that of the jaxpr it calls."""
    ins, outs = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
    rule = cost_rules.rules.get(eqn.primitive) or cost_rules[eqn.primitive]
    result = rule(ins, outs, **eqn.params)
    cost = result if isinstance(result, Cost) else Cost(result)
    if cost.bytes is not None:
        return cost
    return cost._replace(bytes=sum(getattr(a, "nbytes", 0) for a in (*ins, *outs)))


@deep
def cost_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Cost:
    """Return the cost of running a jaxpr once, without fusion; computed once for each jaxpr object."""
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    found = _COST.find(jaxpr)
    if found is None:
        total = Cost(0, 0, 0)
        costs = Costs()
        with interpreting():
            for eqn in interpreted(jaxpr.eqns):
                total += costs.of(eqn)
        found = _COST.keep(jaxpr, total)
    return found


_COST = Memo[Cost]("cost")
