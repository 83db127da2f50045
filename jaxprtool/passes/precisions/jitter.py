"""Run a program with other rounding errors: each float that an equation computes is moved by one or a few units in its last place.

How far the results move tells how much of a difference between two implementations rounding
explains.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import bind
from jaxprtool.interpreters.batch import takes_matrices
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.interpreters.evaluation.observe import computed_by
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.passes.rewrite import rewrite

__all__ = ["Jitter", "flushed"]

# The distance from 1 to the next larger number; other types of floats stay as they are.
_EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}


class Jitter:
    """Computes equations with other rounding errors (for `interpreters.evaluation.observe.computed_by`).

    An equation's floats are multiplied by a number next to 1, the same one whenever it runs, in
    nested jaxprs too. The results of an operation on matrices are moved by as much of the largest
    element: decompositions and solvers round to that. All draws run one prepared program: to
    rewrite it for each draw would take as much memory as the program, and longer than its run.

    Attributes:
      programs: what is prepared to run.
    """

    def __init__(self, places: int = 1, bits: int = 0):
        """Prepare the roundings.

        Args:
          places: how many numbers away from 1 the factors are at most.
          bits: results of types of fewer bits stay as they are.
        """
        self._bits = bits
        self.programs: dict[Any, Any] = {}
        self._places = places
        self._rng = random.Random(0)
        self._steps: list[int] = []  # by equation, in the order in which they were prepared
        self._factors: dict[str, dict[int, Any]] = {}

    def drawn(self, seed: int) -> AbstractContextManager[None]:
        """Return a context manager in which equations have the rounding errors that a seed draws: larger, smaller or none."""
        self._rng = random.Random(seed)
        self._steps[:] = [self._step() for _ in self._steps]
        return computed_by(self)

    def of(self, eqn: JaxprEqn) -> Callable[..., Any]:
        """Return the function that computes an equation."""
        avals, outs = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
        f = prepare_impl(numpy_namespace(), eqn.primitive, avals, outs, eqn.params)
        if eqn.primitive.notation or not any(map(self._epsilon, outs)):
            return f
        self._steps.append(self._step())
        k, several = len(self._steps) - 1, eqn.primitive.multiple_results
        if takes_matrices(eqn.primitive):
            return functools.partial(self._of_matrices, f, k, [*map(self._epsilon, outs)], several)
        factors = [*map(self._factors_of, outs)]
        if several:
            return functools.partial(self._several, f, k, factors)
        return functools.partial(self._one, f, k, factors[0])

    def _epsilon(self, aval: Any) -> float:
        """Return the distance from 1 to the next number of a type whose values are moved; 0 for others."""
        epsilon = _epsilon(aval)
        return epsilon if epsilon and aval.dtype.real.bits >= self._bits else 0.0

    def _step(self) -> int:
        return self._rng.choice((-1, 0, 1)) * self._rng.randint(1, self._places)

    def _factors_of(self, aval: Any) -> dict[int, Any]:
        """Return by what values of a type are multiplied, by step; {} where they stay as they are."""
        epsilon = self._epsilon(aval)
        if not epsilon:
            return {}
        found = self._factors.get(aval.dtype.name)
        if found is None:
            steps = [s for s in range(-self._places, self._places + 1) if s]
            of_type = numpy_namespace().dtype_of_aval(aval.dtype).type
            found = self._factors[aval.dtype.name] = {s: of_type(1 + s * epsilon) for s in steps}
        return found

    def _one(self, f: Callable[..., Any], k: int, factors: dict[int, Any], *ins: Any) -> Any:
        factor = factors.get(self._steps[k])
        return f(*ins) if factor is None else f(*ins) * factor

    def _several(
        self, f: Callable[..., Any], k: int, factors: Sequence[dict[int, Any]], *ins: Any
    ) -> list[Any]:
        step = self._steps[k]
        pairs = zip(f(*ins), factors, strict=True)
        return [x * by[step] if step in by else x for x, by in pairs]

    def _of_matrices(
        self, f: Callable[..., Any], k: int, epsilons: Sequence[float], several: bool, *ins: Any
    ) -> Any:
        found, step = f(*ins), self._steps[k]
        if not step:
            return found
        outs = [
            _moved_by(x, step * epsilon, k) if epsilon else x
            for x, epsilon in zip(found if several else [found], epsilons, strict=True)
        ]
        return outs if several else outs[0]


def _moved_by(x: Any, share: float, seed: int) -> Any:
    """Return matrices whose elements are moved up or down by a share of the largest element of each matrix."""
    xp, axes = numpy_namespace(), tuple(range(-min(x.ndim, 2), 0))
    signs = xp.random.default_rng(seed).choice((-share, share), x.shape)
    size = abs(x).max(axis=axes, keepdims=True, initial=0.0) if axes else abs(x)
    return x + (signs * size).astype(x.dtype)


# The smallest normal numbers.
_TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def flushed(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with numbers below the smallest normal one replaced by 0, as XLA and some processors do."""

    def rule(eqn: JaxprEqn) -> Callable[..., Any] | None:
        if eqn.primitive.notation or not any(_tiny(v.aval) for v in eqn.out_binders):
            return None

        def moved(*ins: Any) -> Any:
            found = bind(eqn.primitive, *ins, **eqn.params)
            outs = [*found] if eqn.primitive.multiple_results else [found]
            pairs = zip(outs, eqn.out_binders, strict=True)
            return [_flushed(x, tiny) if (tiny := _tiny(v.aval)) else x for x, v in pairs]

        return moved

    return rewrite(program, rule)


def _flushed(x: Any, tiny: float) -> Any:
    return lax.select_n(lax.lt(lax.abs(x), tiny), x, lax.mul(x, 0.0))


def _tiny(aval: Any) -> float:
    return _TINY.get(aval.dtype.name, 0.0) if isinstance(aval, ShapedArray) else 0.0


def _epsilon(aval: Any) -> float:
    return _EPSILON.get(aval.dtype.name, 0.0) if isinstance(aval, ShapedArray) else 0.0
