"""The point of a grid for which a kernel runs at the moment, on NumPy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from jaxprtool.core.bind import state

__all__ = ["Grid", "current_grid", "running_on"]


class Grid(NamedTuple):
    """A point of a grid.

    Attributes:
      ids: the point.
      sizes: the size of the grid along each axis.
    """

    ids: Sequence[int]
    sizes: Sequence[int]


def current_grid() -> Grid | None:
    """The point for which a kernel runs; None where none runs."""
    return state.grid


@contextmanager
def running_on(grid: Grid) -> Generator[None]:
    """While a kernel runs for a point."""
    previous, state.grid = state.grid, grid
    try:
        yield
    finally:
        state.grid = previous
