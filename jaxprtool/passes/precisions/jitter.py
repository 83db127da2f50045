"""A program with rounding errors of its own: each float that an equation makes is moved by one or a few in its last place.

How far the results move says how much of a difference between two implementations rounding explains.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import bind
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.passes.rewrite import rewrite

__all__ = ["flushed", "jittered"]

# The distance from 1 to the next larger number; other types of floats stay as they are.
_EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}


def jittered(program: ClosedJaxpr, seed: int, places: int = 1) -> ClosedJaxpr:
    """The program with the floats that equations make multiplied by numbers next to 1, in nested jaxprs too.

    Args:
      program: a well-typed program.
      seed: draws for each equation whether it is the larger or the smaller one, or whether they stay as they are.
      places: how many numbers away from 1 they are at most.
    """
    rng = random.Random(seed)

    def rule(eqn: JaxprEqn) -> Callable[..., Any] | None:
        steps = rng.choice((-1, 0, 1)) * rng.randint(1, places)
        if (
            not steps
            or eqn.primitive.notation
            or not any(_epsilon(v.aval) for v in eqn.out_binders)
        ):
            return None

        def moved(*ins: Any) -> Any:
            found = bind(eqn.primitive, *ins, **eqn.params)
            outs = [*found] if eqn.primitive.multiple_results else [found]
            pairs = zip(outs, eqn.out_binders, strict=True)
            return [lax.mul(x, 1 + steps * e) if (e := _epsilon(v.aval)) else x for x, v in pairs]

        return moved

    return rewrite(program, rule)


# The smallest normal numbers.
_TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def flushed(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with 0 in the place of numbers below the smallest normal one, which XLA and some processors flush."""

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
