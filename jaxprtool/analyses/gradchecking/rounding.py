"""How far rounding moves what a derivative gives: where large numbers cancel in it, a right one is off by more than its result shows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.interpreters.evaluation.streamed import is_streamed
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, JaxprToolWarning
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, shared_size
from jaxprtool.passes.precisions.double import doubled, in_double
from jaxprtool.passes.precisions.jitter import Jitter

__all__ = ["Excuse", "Rounding", "roughness"]

_LARGE = 20_000  # equations
_ROUNDINGS = 5  # runs with other roundings
_UNKNOWN = 2.0**-6  # of a number: what rounding may take where no run says how much
_TIMES = 16  # what one of them moves a result by, so often


class Rounding:
    """The rounding of a derivative.

    It explains a difference where the derivative in double precision has none, and other roundings of its equations move the
    result by as much, or some of its values are too small for their types.

    Attributes:
      guessed: whether of some number that it explained last no other rounding said how much it may be off.
    """

    def __init__(self, made: ClosedJaxpr, program: ClosedJaxpr, tiny: float):
        """Take the derivative of a program; one with types of fewer bits than that has rounds where the program does not.

        `tiny` is the smallest normal number of the types.
        """
        self._tiny = tiny
        self._made = made
        self._coarse = _fewest(made) < _fewest(program)
        self._double: Any = None
        self._jitter = Jitter()
        self.guessed = False

    def explains(
        self,
        args: Sequence[Any],
        number: Callable[[Sequence[Any]], Any],
        fits: Callable[[Any], Any],
    ) -> Any:
        """Whether rounding explains what the derivative gives, elementwise.

        Args:
          args: what the derivative is given.
          number: what is compared, of the results of the derivative in any precision: an array or a number.
          fits: whether such values are near enough to the differences.
        """
        self.guessed = False
        wide = None if self._coarse else self._in_double()
        if wide is None:
            return False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", JaxprToolWarning)
                small = _Small(self._tiny)
                with observed_by(small):
                    exact = number(eval_jaxpr(wide, [*map(doubled, args)]))
                del wide
                right = fits(exact)
                xp = numpy_namespace()
                if not xp.any(right):
                    return right
                base = number(eval_jaxpr(self._made, args))
                moved = [number(self._moved(seed, args)) for seed in range(_ROUNDINGS)]
        except JaxprToolError:
            return False
        sizes = xp.array([abs(x - base) for x in moved])
        # the largest: most roundings may leave the 0 that is left of 1 - 1 as it is
        room = _TIMES * sizes.max(axis=0)
        # other roundings of numbers such as -1e30, which stand for -inf, may give NaN: they say nothing
        silent = room != room
        room = xp.where(silent, _UNKNOWN * abs(exact), room)
        lost = small.found & xp.isfinite(base)
        explained = right & ((abs(base - exact) <= room) | lost)
        self.guessed = bool((explained & silent).any())
        return explained

    def _moved(self, seed: int, args: Sequence[Any]) -> list[Any]:
        """What the derivative gives with other roundings."""
        jitter = Jitter() if is_streamed(self._made.jaxpr) else self._jitter
        with jitter.drawn(seed):
            return eval_jaxpr(self._made, args)

    def _in_double(self) -> ClosedJaxpr | None:
        """The derivative in double precision; None where it has none.

        A small one is kept. It takes as much memory as the derivative, and what is prepared to run it.
        """
        if self._double is not None:
            return self._double
        found = in_double(self._made)
        if shared_size(self._made.jaxpr) <= _LARGE:
            self._double = found
        return found


def roughness(results: Callable[[], Sequence[Any]]) -> list[Any]:
    """How far other roundings of its equations move what a program gives, elementwise: a small difference of large numbers by far more than its size shows.

    Args:
      results: runs the program at the point, in the precision in which differences are taken.
    """
    xp, jitter = numpy_namespace(), Jitter()
    base = results()
    found = [0.0 * abs(x) for x in base]
    for seed in range(_ROUNDINGS):
        with jitter.drawn(seed):
            moved = results()
        sizes = [abs(x - y) for x, y in zip(moved, base, strict=True)]
        known = [xp.where(size < math.inf, size, 0.0) for size in sizes]
        found = [xp.maximum(x, y) for x, y in zip(found, known, strict=True)]
    return found


class _Small:
    """Sees whether an evaluation makes numbers that are smaller than the smallest normal one of a type, and not zero."""

    def __init__(self, tiny: float):
        self._tiny, self.found = tiny, False

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        return not self.found

    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None:
        pass

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        for x in () if self.found else outs:
            if getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c"):
                size = abs(x)
                self.found |= bool(((size > 0) & (size < self._tiny)).any())

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        pass


class Excuse(NamedTuple):
    """A number of a derivative in reverse mode, and what it should be.

    Attributes:
      rounding: of the derivative.
      args: what it is given.
      number: the number, of the results of the derivative in any precision.
      wanted: what the differences say.
      room: how far from it the number may be.
      possible: whether rounding is looked at.
    """

    rounding: Rounding
    args: Sequence[Any]
    number: Callable[[Sequence[Any]], Any]
    wanted: float
    room: float
    possible: bool = True

    def holds(self) -> bool:
        """Whether rounding explains that the number is off."""
        if not self.possible:
            return False
        fits = lambda x: abs(x - self.wanted) <= self.room  # noqa: E731
        return bool(self.rounding.explains(self.args, self.number, fits))

    def unless_off(self, forward: float, own: float, *, noisy: bool) -> Excuse:
        """The same of a difference between the modes, unless that is of forward mode and not of rounding.

        Args:
          forward: the number in forward mode.
          own: how far apart the two may be.
          noisy: whether rounding explains that forward mode is off.
        """
        return self._replace(possible=noisy or abs(forward - self.wanted) <= own + self.room / 10)


def _fewest(program: ClosedJaxpr) -> int:
    """The bits of the smallest floating type that a program computes with."""
    atoms = [*program.jaxpr.all_binders]
    atoms += [v for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders]
    dtypes = {x.aval.dtype for x in atoms if isinstance(x.aval, ShapedArray)}
    return min([d.real.bits for d in dtypes if d.is_inexact], default=64)
