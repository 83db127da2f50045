"""Loops that are written out iteration by iteration, and where each operand of an iteration comes from."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.interpreters.reuse.copies import is_pure
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import Atom, JaxprEqn, Lit
from jaxprtool.passes.repeats.repetitions import UNIQUE, Stretch

__all__ = ["Carried", "Each", "Inner", "Loop", "Same", "Sliced", "Turns"]


class Inner(NamedTuple):
    """A result of an equation of the same iteration."""

    at: int
    result: int


class Carried(NamedTuple):
    """A result of an equation of an earlier iteration.

    Attributes:
      at: the equation in an iteration.
      result: the position of the result.
      depth: how many iterations before.
      begin: what the first `depth` iterations read in its place.
    """

    at: int
    result: int
    depth: int
    begin: tuple[Atom, ...]


class Same(NamedTuple):
    """An atom that is the same in all iterations."""

    atom: Atom


class Each(NamedTuple):
    """A different atom in each iteration."""

    atoms: tuple[Atom, ...]


class Sliced(NamedTuple):
    """A slice of the same array in each iteration, evenly spaced along an axis.

    Attributes:
      of: the array.
      axis: the axis along which the slice moves.
      step: iteration k takes what iteration 0 takes, moved by k steps.
    """

    of: Atom
    axis: int
    step: int


Source = Inner | Carried | Same | Each


class Loop(NamedTuple):
    """A loop that is written out.

    Attributes:
      start: the index of its first equation.
      period: how many equations an iteration has.
      turns: how many iterations there are.
      sources: for each equation of an iteration the sources of its operands; a `Sliced` for a slice
        that moves.
    """

    start: int
    period: int
    turns: int
    sources: list[list[Source] | Sliced]

    @property
    def stop(self) -> int:
        """The index after the last equation."""
        return self.start + self.period * self.turns


class Turns:
    """The equations of a jaxpr, and the loops among them.

    Args:
      eqns: the equations.
      keys: keys of params.
      least: how many iterations a loop has at least.
      apart: equations that are in no loop.
    """

    def __init__(
        self, eqns: Sequence[JaxprEqn], keys: Keys, least: int, apart: Container[JaxprEqn] = ()
    ):
        self.eqns, self.keys, self.least, self.apart = eqns, keys, least, apart
        self.made: dict[Any, tuple[int, int]] = {
            v: (i, r) for i, eqn in enumerate(eqns) for r, v in enumerate(eqn.out_binders)
        }
        self.kinds = self._kinds()

    def _kinds(self) -> list[int]:
        """Return a number for each equation, the same for those that differ only in names; the start of a slice does not count."""
        numbers: dict[Hashable, int] = {}
        found: list[int] = []
        for eqn in self.eqns:
            if not is_pure(eqn) or eqn in self.apart:
                found.append(UNIQUE)
                continue
            if eqn.primitive is _SLICE:
                params: Hashable = eqn.params["strides"], eqn.out_binders[0].aval
            else:
                params = self.keys.params(eqn)
            key = eqn.primitive, params, tuple([x.aval.strong for x in eqn.inputs])
            found.append(numbers.setdefault(key, len(numbers)))
        return found

    def loops(self, stretch: Stretch) -> Iterator[Loop]:
        """Yield the loops of a stretch, one after the other."""
        start, stop, period = stretch
        while (stop - start) // period >= self.least:
            trial = _Trial(self, start, period, (stop - start) // period)
            if trial.turns >= self.least:
                yield Loop(start, period, trial.turns, trial.sources())
                start += trial.turns * period
            else:
                start += (trial.turns + 1) * period

    def literal(self, x: Lit) -> Hashable:
        """Return a key that is the same for equal literals."""
        return self.keys.literal(x)


_SLICE = lax.slice.primitive


class _Trial:
    """The iterations from an index on, as long as their operands are wired like those of iteration `like`.

    Attributes:
      of: the equations.
      start: the index of the first equation.
      period: how many equations an iteration has.
      like: the iteration that others are compared with.
      roles: the roles of the operands of each equation.
      turns: how many iterations there are; fewer than `least` where iteration `like` is not like
        those before it.
    """

    def __init__(self, of: Turns, start: int, period: int, most: int):
        self.of, self.start, self.period, self.like = of, start, period, of.least - 1
        self.roles = [self._roles(j) for j in range(period)]
        self.turns = 0
        while self.turns < most and self._fits(self.turns):
            self.turns += 1

    def _eqn(self, k: int, j: int) -> JaxprEqn:
        return self.of.eqns[self.start + k * self.period + j]

    def _place(self, x: Atom) -> tuple[int, int, int] | None:
        """Return iteration, equation and result of a variable of the loop; None for other atoms."""
        if type(x) is Lit:
            return None
        i, result = self.of.made.get(x, (-1, 0))
        return None if i < self.start else (*divmod(i - self.start, self.period), result)

    def _roles(self, j: int) -> Any:
        """Return for each operand of an equation: (iterations before, equation, result), an atom that is always the same, or None.

        A `Sliced` for a slice that moves.
        """
        like, before = self._eqn(self.like, j), self._eqn(self.like - 1, j)
        if like.primitive is _SLICE and like.params != before.params:
            return self._slice(like, before)
        return [self._role(x, y) for x, y in zip(like.inputs, before.inputs, strict=True)]

    def _role(self, x: Atom, before: Atom) -> Any:
        place = self._place(x)
        if place is not None:
            return self.like - place[0], *place[1:]
        if type(x) is Lit and type(before) is Lit:
            return x if self.of.literal(x) == self.of.literal(before) else None
        return x if x is before else None

    def _slice(self, like: JaxprEqn, before: JaxprEqn) -> Sliced | None:
        (x,) = like.inputs
        starts = [e.params["start_indices"] for e in (before, like)]
        if type(x) is Lit or any(s != 1 for s in like.params["strides"] or ()):
            return None
        moves = [i for i, (a, b) in enumerate(zip(*starts, strict=True)) if a is not b and a != b]
        if len(moves) != 1 or self._place(x) is not None:
            return None
        (axis,) = moves
        ends = [s[axis] for s in (*starts, like.out_binders[0].aval.shape)]
        if not all(isinstance(n, int) for n in (*x.aval.shape, *ends)):
            return None
        step, size = ends[1] - ends[0], ends[2]
        return Sliced(x, axis, step) if size == 1 or abs(step) == size else None

    def _fits(self, k: int) -> bool:
        for j, roles in enumerate(self.roles):
            eqn = self._eqn(k, j)
            if roles is None:
                return False
            if isinstance(roles, Sliced):
                if not self._fits_slice(eqn, roles, k, j):
                    return False
            elif (
                eqn.primitive is _SLICE and eqn.params != self._eqn(self.like, j).params
            ) or not all(self._is(x, role, k) for x, role in zip(eqn.inputs, roles, strict=True)):
                return False
        return True

    def _fits_slice(self, eqn: JaxprEqn, sliced: Sliced, k: int, j: int) -> bool:
        wanted = [*self._eqn(self.like, j).params["start_indices"]]
        wanted[sliced.axis] += (k - self.like) * sliced.step
        return eqn.inputs[0] is sliced.of and [*eqn.params["start_indices"]] == wanted

    def _is(self, x: Atom, role: Any, k: int) -> bool:
        """Whether an operand of iteration k has a role."""
        place = self._place(x)
        if type(role) is tuple:
            back = role[0]
            return place is None if k < back else place == (k - back, *role[1:])
        if place is not None:
            return False
        if role is None:
            return type(x) is not Lit or x.val is not None
        if type(role) is Lit:
            return type(x) is Lit and self.of.literal(x) == self.of.literal(role)
        return x is role

    def sources(self) -> list[list[Source] | Sliced]:
        """Return the sources of the operands of an iteration."""
        found: list[list[Source] | Sliced] = []
        for j, roles in enumerate(self.roles):
            if isinstance(roles, Sliced):
                found.append(roles)
            else:
                found.append([self._source(j, s, role) for s, role in enumerate(roles)])
        return found

    def _source(self, j: int, s: int, role: Any) -> Source:
        if type(role) is tuple:
            back, at, result = role
            if not back:
                return Inner(at, result)
            begin = tuple([self._eqn(k, j).inputs[s] for k in range(back)])
            return Carried(at, result, back, begin)
        if role is None:
            return Each(tuple([self._eqn(k, j).inputs[s] for k in range(self.turns)]))
        return Same(role)
