"""Run two programs in a wider precision, to tell what rounding does to their results from what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.driver.run import run
from jaxprtool.driver.running.prints import silent
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.limits import Turns, limited_turns
from jaxprtool.interpreters.evaluation.observe import computed_by
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.precisions.double import doubled, in_double_from
from jaxprtool.passes.precisions.jitter import Jitter

__all__ = ["WiderRuns", "differ"]

# Of the difference in their own types: two results that are nearer in the wider precision are the same number there.
_AGREE = 2.0**-10  # in double precision, which has 29 bits more
_AGREE_LONG = 2.0**-5  # in long double, which has 11
_LONG_UNIT = 2.0**-11  # a unit of rounding of long double, in those of f64
_ROUNDINGS = 6  # runs with other roundings
_REAL = 64.0  # units of rounding of the largest element: a larger difference in the wider precision is none of rounding,
_LEAST = 2.0**-4  # and so is this share of it, or one unit of a type with fewer bits


class WiderRuns:
    """Runs two programs in double precision, or in long double where their results are in double precision.

    What is narrower than the results is not widened: to round to it is a part of the program.
    """

    def __init__(self, a: ClosedJaxpr, b: ClosedJaxpr, limits: dict[str, Any]):
        avals = [x for x in (*a.out_avals, *b.out_avals) if isinstance(x, ShapedArray)]
        self._bits = min([x.dtype.real.bits for x in avals if x.dtype.is_inexact], default=64)
        self._given, self._limits = (a, b), limits
        self._wide: list[ClosedJaxpr | None] | None = None
        self._functions: Any = None
        self._jitter = Jitter(bits=64)

    def results(
        self, args: Sequence[Value], turns: int | None, rounded_by: Any = None
    ) -> list[list[Value]] | None:
        """Return the results of both in the wider precision; None where they have none.

        Args:
          args: the arguments, in their own types.
          turns: how many steps loops without a known end may take.
          rounded_by: computes the equations in double precision with other roundings (`Jitter`), or None.
        """
        try:
            if self._wide is None:
                self._wide = self._programs()
            found: list[list[Value]] = []
            for program in self._wide:
                if program is None:
                    return None
                by = computed_by(rounded_by or self._functions)
                with silent(), limited_turns(Turns(turns)), by:
                    found.append(run(program, self._widened(args, program), **self._limits))
        except JaxprToolError:
            self._wide = [None]
            return None
        return found

    def same_results(
        self,
        args: Sequence[Value],
        turns: int | None,
        own: Sequence[Sequence[Value]],
        where: Sequence[bool],
    ) -> str:
        """Return the wider type in which both give the same finite results, where their own types are too narrow; "" for none.

        Args:
          args, turns: as of `results`.
          own: the results of both in their own types.
          where: for each result whether it matters.
        """
        wide = self.results(args, turns)
        if wide is None:
            return ""
        xp = numpy_namespace()
        for x, p, q, wanted in zip(own[0], *wide, where, strict=True):
            if not wanted:
                continue
            with xp.errstate(all="ignore"):  # of infinities and NaNs
                room = _real(float(xp.finfo_of(x.dtype).eps)) * xp.maximum(abs(p), abs(q))
                near = xp.isfinite(p) & xp.isfinite(q) & (abs(p - q) <= room)
            if not near.all():
                return ""
        return "f64" if self._bits < 64 else "long double"

    def agreeing(
        self,
        args: Sequence[Value],
        turns: int | None,
        own: Sequence[Sequence[Value]],
        moves: Sequence[Any],
        where: Sequence[bool],
    ) -> list[Any] | None:
        """Return, elementwise, where the results of both are the same number in the wider precision; None where they have no results.

        That is where they are much nearer there than in their own types, or no further apart than other roundings there
        move them.

        Args:
          args, turns: as of `results`.
          own: the results of both in their own types.
          moves: a multiple of how far other roundings of the equations move each result in its own type.
          where: for each result whether it matters; the others have False.
        """
        wide = self.results(args, turns)
        if wide is None:
            return None
        rows = [*zip(*own, *wide, where, strict=True)]
        share = _AGREE if self._bits < 64 else _AGREE_LONG
        apart: list[Any] = [abs(p - q) if w else 0.0 for _, _, p, q, w in rows]
        rooms: list[Any] = [share * _apart(x, y, p) if w else 0.0 for x, y, p, _, w in rows]
        triples = zip(apart, rooms, where, strict=True)
        if self._bits == 64:  # equations are moved in no type that is wider than f64
            maximum = numpy_namespace().maximum
            rooms = [maximum(r, m * _LONG_UNIT) for r, m in zip(rooms, moves, strict=True)]
        elif any((a > r).any() for a, r, w in triples if w):
            rooms = self._with_roundings(args, turns, wide, where, rooms)
        return [a <= r if w else False for a, r, w in zip(apart, rooms, where, strict=True)]

    def _with_roundings(
        self,
        args: Sequence[Value],
        turns: int | None,
        wide: Sequence[Sequence[Value]],
        where: Sequence[bool],
        rooms: list[Any],
    ) -> list[Any]:
        """Return the larger of `rooms` and a multiple of how far other roundings move the results in double precision."""
        from jaxprtool.backends.agreement import larger  # noqa: PLC0415 (gateway: NumPy)

        for seed in range(_ROUNDINGS):
            with self._jitter.drawn(seed):
                moved = self.results(args, turns, self._jitter)
            for both in zip(moved or (), wide, strict=False):
                triples = zip(rooms, *both, where, strict=True)
                rooms = [larger(r, x, y) if w else r for r, x, y, w in triples]
        return rooms

    def _programs(self) -> list[ClosedJaxpr | None]:
        if self._bits == 64:
            from jaxprtool.backends import extended  # noqa: PLC0415 (gateway: NumPy)

            extended.check_long_double()
            self._functions = extended.Extended()
        return [in_double_from(p, self._bits) for p in self._given]

    def _widened(self, args: Sequence[Value], program: ClosedJaxpr) -> list[Value]:
        binders = program.jaxpr.const_binders
        given = [v.aval for v, c in zip(binders, program.consts, strict=True) if c is None]
        avals = [*given, *program.in_avals]
        return [
            doubled(x) if getattr(getattr(a, "dtype", None), "bits", 0) in (64, 128) else x
            for x, a in zip(args, avals, strict=True)
        ]


def _apart(x: Value, y: Value, wide: Value) -> Any:
    """Return how far results are apart in their own types, in the wider one."""
    return abs(wide.dtype.type(1) * x - y)


def differ(own: tuple[Value, Value], wide: tuple[Value, Value], epsilon: float) -> bool:
    """Whether two results differ in the wider precision as they do in their own types, and by more than rounding there.

    epsilon: the unit of rounding of their own type.
    """
    xp = numpy_namespace()
    apart, there = _apart(*own, wide[0]), abs(wide[0] - wide[1])
    least = _real(epsilon) * max(abs(x).max(initial=0.0) for x in wide)
    return bool(xp.any((there > least) & (apart > there / 2)))


def _real(epsilon: float) -> float:
    """Return which share of the largest element no rounding explains in a wider precision."""
    return min(_REAL * epsilon, max(epsilon, _LEAST))
