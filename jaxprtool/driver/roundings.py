"""How much of a difference between two backends the rounding of a program explains, where its results do not show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.driver.in_step import Side
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Value
from jaxprtool.passes.jitter import jittered
from jaxprtool.passes.once import runs_once

__all__ = ["rooms_of_rounding"]

_ROUNDINGS = 6  # runs with other roundings


def rooms_of_rounding(
    sides: tuple[Side, Side], results: tuple[Sequence[Value], Sequence[Value]], *, one: bool
) -> list[Any]:
    """How far rounding moves each result, elementwise: sixteen times what other roundings of the equations do, on NumPy.

    Where a program subtracts what is nearly equal (the logarithm of a determinant that is 1), that is far more than its results show.
    A program that may run once only leaves no room, nor does a side in double precision, which is there to show the rounding of the
    other one. `one`: both sides run the same program.
    """
    from jaxprtool.backends.agreement import larger  # noqa: PLC0415 (gateway: NumPy)

    rooms: list[Any] = [0.0] * min(map(len, results))
    if any(run.backend == "f64" for run in sides):
        return rooms
    for run, outs in [*zip(sides, results, strict=True)][: 1 if one else 2]:
        if runs_once(run.program):
            continue
        on_numpy = run._replace(backend="numpy")
        try:
            base = outs if run.backend == "numpy" else on_numpy.results()
            for seed in range(_ROUNDINGS):
                moved = on_numpy._replace(program=jittered(run.program, seed)).results()
                rooms = [larger(*each) for each in zip(rooms, moved, base, strict=False)]
        except JaxprToolError:
            continue
    return rooms
