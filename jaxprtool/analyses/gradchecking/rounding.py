"""How far rounding moves a derivative: where large numbers cancel in it, a right derivative is off by more than its size suggests."""

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

_LARGE = 20_000  # equations: of larger derivatives, the form in double precision is not kept
_ROUNDINGS = 5  # runs with other roundings
_UNKNOWN = 2.0**-6  # the relative error that rounding may cause where no run says how much
_TIMES = 16  # how many times the median movement of those runs rounding may explain


class Rounding:
    """Whether rounding explains that a derivative is off.

    It does where the derivative in double precision is right, and other roundings of its equations
    move the result by as much, or some of its values are too small for their types.

    Attributes:
      guessed: whether, in the last question, other roundings did not say how much some number that
        it explained may be off.
    """

    def __init__(self, made: ClosedJaxpr, program: ClosedJaxpr, tiny: float):
        """Prepare for a derivative. One that has types of fewer bits than its program rounds where the program does not: that is no excuse.

        Args:
          made: the derivative.
          program: the program.
          tiny: the smallest normal number of the types.
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
        """Return whether rounding explains what the derivative gives, elementwise.

        Args:
          args: the arguments of the derivative.
          number: the compared number, or array, as a function of the results of the derivative in
            any precision.
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
        # The largest, since most roundings may leave a 0, such as that of 1 - 1, as it is.
        room = _TIMES * sizes.max(axis=0)
        # other roundings of numbers such as -1e30, which stand for -inf, may give NaN, which says nothing
        silent = room != room
        room = xp.where(silent, _UNKNOWN * abs(exact), room)
        lost = small.found & xp.isfinite(base)
        explained = right & ((abs(base - exact) <= room) | lost)
        self.guessed = bool((explained & silent).any())
        return explained

    def _moved(self, seed: int, args: Sequence[Any]) -> list[Any]:
        """Return what the derivative gives with other roundings."""
        jitter = Jitter() if is_streamed(self._made.jaxpr) else self._jitter
        with jitter.drawn(seed):
            return eval_jaxpr(self._made, args)

    def _in_double(self) -> ClosedJaxpr | None:
        """Return the derivative in double precision; None where it has none.

        A small one is kept. It takes as much memory as the derivative, and what is prepared to run
        it.
        """
        if self._double is not None:
            return self._double
        found = in_double(self._made)
        if shared_size(self._made.jaxpr) <= _LARGE:
            self._double = found
        return found


def roughness(results: Callable[[], Sequence[Any]]) -> list[Any]:
    """Return, elementwise, how far other roundings of its equations move the results of a program.

    A small difference of large numbers moves by far more than its size suggests.

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
    """Observes whether an evaluation computes nonzero numbers that are smaller than the smallest normal one of a type."""

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
      rounding: the rounding of the derivative.
      args: the arguments of the derivative.
      number: the number, as a function of the results of the derivative in any precision.
      wanted: what the differences say.
      room: how far from it the number may be.
      possible: whether rounding is considered at all.
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
        """Return the excuse for a difference between the modes: it is not possible where forward mode is off, unless by rounding.

        Args:
          forward: the number in forward mode.
          own: how far apart the two may be.
          noisy: whether rounding explains that forward mode is off.
        """
        return self._replace(possible=noisy or abs(forward - self.wanted) <= own + self.room / 10)


def _fewest(program: ClosedJaxpr) -> int:
    """Return the bits of the smallest floating type that a program computes with."""
    atoms = [*program.jaxpr.all_binders]
    atoms += [v for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders]
    dtypes = {x.aval.dtype for x in atoms if isinstance(x.aval, ShapedArray)}
    return min([d.real.bits for d in dtypes if d.is_inexact], default=64)
