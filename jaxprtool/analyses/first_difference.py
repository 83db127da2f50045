"""The first equation whose results differ although its operands agree: two evaluations that run in step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.analyses.comparison import First
from jaxprtool.analyses.counterparts import counterparts, definitions
from jaxprtool.analyses.in_step import Enter, Leave, See, Stepped
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.state_values import Cell
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Var

__all__ = ["Search"]

Pairs = list[tuple[int, int]]


class Search:
    """The search in two evaluations.

    Attributes:
      first: the first difference that was found.
      flips: the first result that is no float and differs.
    """

    def __init__(
        self,
        a: Stepped,
        b: Stepped,
        same: Callable[[Any, Any], bool],
        difference: Callable[[Any, Any], Any],
    ):
        """Of two evaluations.

        Args:
          a, b: the evaluations, which have not begun.
          same: whether two values are equal bit by bit.
          difference: how two values differ, as `backends.differences.Found` has it.
        """
        self.a, self.b = a, b
        self.same, self.difference = same, difference
        self.first: First | None = None
        self.flips: First | None = None
        self._paths: tuple[tuple[Step, ...], tuple[Step, ...]] = ((), ())
        self._pairs: dict[tuple[Jaxpr, Jaxpr], Pairs] = {}
        self._jaxprs: tuple[Jaxpr, Jaxpr] | None = None
        self._carried: First | None = None

    def run(self) -> None:
        """Run both evaluations to their ends."""
        a, b = self.a.peek(), self.b.peek()
        if isinstance(a, Enter) and isinstance(b, Enter):
            self._jaxprs = a.jaxpr, b.jaxpr
            self._level()
        for side in (self.a, self.b):
            while side.next() is not None:
                pass
        self.first = self.first or self._carried

    def of_results(self, i: int) -> First | None:
        """What gives result i, in both programs; for one that differs although no pair of equations does."""
        if self._jaxprs is None:
            return None
        places: list[Place | None] = []
        for jaxpr in self._jaxprs:
            x = jaxpr.outs[i] if i < len(jaxpr.outs) else None
            at = definitions(jaxpr).get(x) if isinstance(x, Var) else None
            places.append(None if at is None else Place(jaxpr.eqns[at]))
        return First(places[0], places[1]) if any(places) else None

    def _level(self) -> None:
        """Follow a jaxpr of each side to its end; both begin now."""
        enter_a, enter_b = self.a.next(), self.b.next()
        assert isinstance(enter_a, Enter) and isinstance(enter_b, Enter)
        a, b = enter_a.jaxpr, enter_b.jaxpr
        outer = self._paths
        if enter_a.step is not None and enter_b.step is not None:
            self._paths = (*outer[0], enter_a.step), (*outer[1], enter_b.step)
        pairs = self._pairs.get((a, b))
        if pairs is None:
            pairs = self._pairs[a, b] = counterparts(a, b)
        i = j = 0
        for p, q in pairs:
            if p > i or q > j:
                _skip(self.a, p - i)
                _skip(self.b, q - j)
            self._pair(pairs, (a, b))
            i, j = p + 1, q + 1
        _skip(self.a, len(a.eqns) - i)
        _skip(self.b, len(b.eqns) - j)
        self.a.next()
        self.b.next()
        self._paths = outer

    def _pair(self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr]) -> None:
        """Run an equation of each side, which stand in each other's place, with what is inside them."""
        while True:
            x, y = self.a.peek(), self.b.peek()
            if type(x) is See and type(y) is See:
                break
            if isinstance(x, Enter) and isinstance(y, Enter) and _matches(x.step, y.step):
                self._level()
                continue
            inside = [isinstance(e, Enter) for e in (x, y)]
            for side, entered in zip((self.a, self.b), inside, strict=True):
                if entered:
                    _skip_level(side)
            if not any(inside):
                break
        seen_a, seen_b = self.a.next(), self.b.next()
        if isinstance(seen_a, See) and isinstance(seen_b, See):
            self._compare(pairs, jaxprs, seen_a, seen_b)

    def _compare(self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], a: See, b: See) -> None:
        """Compare the results of a pair, and say where a difference comes from."""
        if self.first is not None and self.flips is not None:
            return
        for k, (x, y) in enumerate(zip(a.outs, b.outs, strict=False)):
            if self.same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            here = First(self._place(0, a.eqn), self._place(1, b.eqn), found, k)
            if self.first is None:
                self.first = self._origin(pairs, jaxprs, a, b, here)
            if self.first is None and self._carried is None:
                self._carried = self._outside(here)
            if found.exact and self.flips is None:
                self.flips = here

    def _place(self, side: int, eqn: JaxprEqn) -> Place:
        return Place(eqn, self._paths[side])

    def _outside(self, here: First) -> First:
        """The equations that hold the jaxprs which run, since what those are given differs; here at the top."""
        if not all(self._paths):
            return here
        a, b = (Place(path[-1].eqn, path[:-1]) for path in self._paths)
        return First(a, b)

    def _origin(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], a: See, b: See, here: First
    ) -> First | None:
        """The equations that are to blame for results that differ.

        They are this pair where the operands agree, or are other variables than those that stand in each other's place; an
        equation that gives an operand and has no counterpart; None where operands differed before.
        """
        if len(a.ins) != len(b.ins):
            return here
        partner = dict(pairs)
        binders = [{v: i for i, v in enumerate(j.all_binders)} for j in jaxprs]
        defined = [definitions(j) for j in jaxprs]
        origin: First | None = here
        for k, (x, y) in enumerate(zip(a.ins, b.ins, strict=True)):
            if type(x) is Cell or self.same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            u, v = a.eqn.inputs[k], b.eqn.inputs[k]
            if not isinstance(u, Var) or not isinstance(v, Var):
                return here
            i, j = defined[0].get(u), defined[1].get(v)
            alone = i is not None and i not in partner, j is not None and j not in partner.values()
            if any(alone):
                p = jaxprs[0].eqns[i] if alone[0] and i is not None else a.eqn
                q = jaxprs[1].eqns[j] if alone[1] and j is not None else b.eqn
                return First(self._place(0, p), self._place(1, q), found)
            if i is None and j is None:
                carried = binders[0].get(u) == binders[1].get(v)
            else:
                carried = i is not None and partner.get(i) == j
            if not carried:
                return here
            origin = None
        return origin


def _matches(a: Step | None, b: Step | None) -> bool:
    """Whether two jaxprs are in the same place of two equations that stand in each other's place."""
    if a is None or b is None:
        return a is b
    return (a.param, a.branch, a.step) == (b.param, b.branch, b.step)


def _skip(side: Stepped, n: int) -> None:
    """Run n equations of a side that have no counterparts."""
    for _ in range(n):
        while isinstance(side.peek(), Enter):
            _skip_level(side)
        side.next()


def _skip_level(side: Stepped) -> None:
    """Run a jaxpr of one side alone."""
    depth = 0
    while True:
        event = side.next()
        depth += isinstance(event, Enter) - isinstance(event, Leave)
        if depth <= 0:
            return
