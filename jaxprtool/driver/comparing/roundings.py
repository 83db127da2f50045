"""Estimate how much of a difference between two backends rounding explains, where the results do not show it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jaxprtool.driver.comparing.in_step import Side
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Value
from jaxprtool.passes.once import runs_once
from jaxprtool.passes.precisions.jitter import Jitter

__all__ = ["rooms_of_rounding"]

_ROUNDINGS = 6  # runs with other roundings


def rooms_of_rounding(
    sides: tuple[Side, Side], results: tuple[Sequence[Value], Sequence[Value]], *, one: bool
) -> list[Any]:
    """Return how far rounding moves each result, elementwise: sixteen times the effect of other roundings on NumPy.

    Where a program subtracts nearly equal values (the logarithm of a determinant that is 1), that
    is far more than its results suggest. It is zero for a program that may run only once, where a
    side is in double precision, since that is meant to show the rounding of the other one, and for
    results of different shapes.

    Args:
      sides: the sides that ran.
      results: the results of the runs.
      one: whether both run the same program.
    """
    rooms: list[Any] = [0.0] * min(map(len, results))
    if any(run.backend == "f64" for run in sides):
        return rooms
    pairs = zip(sides[: 1 if one else 2], results, strict=False)
    for found in [_rooms(*pair) for pair in pairs]:
        both = zip(rooms, found, *results, strict=False)
        rooms = [
            numpy_namespace().maximum(r, f) if _same_shape(x, y) else 0.0 for r, f, x, y in both
        ]
    return rooms


def _rooms(run: Side, results: Sequence[Value]) -> list[Any]:
    """Return the same for one side."""
    from jaxprtool.backends.agreement import larger  # noqa: PLC0415 (gateway: NumPy)

    rooms: list[Any] = [0.0] * len(results)
    if runs_once(run.program):
        return rooms
    on_numpy = run._replace(backend="numpy")
    with suppress(JaxprToolError):
        base = results if run.backend == "numpy" else on_numpy.results()
        jitter = Jitter()
        for seed in range(_ROUNDINGS):
            with jitter.drawn(seed):
                moved = on_numpy.results()
            rooms = [larger(*each) for each in zip(rooms, moved, base, strict=True)]
    return rooms


def _same_shape(x: Value, y: Value) -> bool:
    return numpy_namespace().shape(x) == numpy_namespace().shape(y)
