"""The first equation whose results differ although its operands agree: two evaluations that run in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.comparison import First
from jaxprtool.analyses.counterparts import counterparts, definitions
from jaxprtool.analyses.in_step import Enter, Leave, See, Stepped
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.state_values import Cell
from jaxprtool.ir.jaxpr import Jaxpr, Var

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

    def run(self) -> None:
        """Run both evaluations to their ends."""
        a, b = self.a.peek(), self.b.peek()
        if isinstance(a, Enter) and isinstance(b, Enter):
            self._jaxprs = a.jaxpr, b.jaxpr
            self._level()
        for side in (self.a, self.b):
            while side.next() is not None:
                pass

    def of_results(self, i: int) -> First | None:
        """What gives result i, in both programs; for one that differs although no pair of equations does."""
        if self._jaxprs is None:
            return None
        places: list[Place | None] = []
        for jaxpr in self._jaxprs:
            x = jaxpr.outs[i] if i < len(jaxpr.outs) else None
            at = definitions(jaxpr).get(x) if isinstance(x, Var) else None
            places.append(None if at is None else Place(jaxpr.eqns[at]))
        return First(*places) if any(places) else None

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
            _skip(self.a, p - i)
            _skip(self.b, q - j)
            self._pair(pairs, (a, b), (p, q))
            i, j = p + 1, q + 1
        _skip(self.a, len(a.eqns) - i)
        _skip(self.b, len(b.eqns) - j)
        self.a.next(), self.b.next()
        self._paths = outer

    def _pair(self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], at: tuple[int, int]) -> None:
        """Run an equation of each side, which stand in each other's place, with what is inside them."""
        while True:
            x, y = self.a.peek(), self.b.peek()
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
            self._compare(pairs, jaxprs, at, seen_a, seen_b)

    def _compare(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], at: tuple[int, int], a: See, b: See
    ) -> None:
        if self.first is not None and self.flips is not None:
            return
        same = self.same
        for k, (x, y) in enumerate(zip(_results(a), _results(b), strict=False)):
            if same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            here = First(self._place(0, a), self._place(1, b), found, k)
            if self.first is None:
                self.first = self._origin(pairs, jaxprs, at, a, b) or here
            if found.exact and self.flips is None:
                self.flips = here

    def _place(self, side: int, seen: See) -> Place:
        return Place(seen.eqn, self._paths[side])

    def _origin(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], at: tuple[int, int], a: See, b: See
    ) -> First | None:
        """Where an operand of a pair that differs comes from, if that is an equation without a counterpart; else None."""
        if len(a.ins) != len(b.ins):
            return None
        for k, (x, y) in enumerate(zip(a.ins, b.ins, strict=True)):
            if type(x) is Cell or self.same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            places, alone = [self._place(0, a), self._place(1, b)], False
            for side, eqn in enumerate((a.eqn, b.eqn)):
                v = eqn.inputs[k]
                where = definitions(jaxprs[side]).get(v) if isinstance(v, Var) else None
                if where is not None and where not in {pair[side] for pair in pairs}:
                    places[side] = Place(jaxprs[side].eqns[where], self._paths[side])
                    alone = True
            if alone:
                return First(*places, found)
        return None


def _results(seen: See) -> Sequence[Any]:
    """The results of an equation, and what is then in the cells that it was given."""
    if any(type(x) is Cell for x in seen.ins):
        return [*seen.outs, *(x for x in seen.ins if type(x) is Cell)]
    return seen.outs


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
