"""The grid point for which a kernel currently runs on NumPy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from jaxprtool.core.bind import state

__all__ = ["Grid", "current_grid", "running_on"]


class Grid(NamedTuple):
    """A point of a grid.

    Attributes:
      ids: the indices of the point.
      sizes: the size of the grid along each axis.
    """

    ids: Sequence[int]
    sizes: Sequence[int]


def current_grid() -> Grid | None:
    """Return the grid point for which a kernel runs; None outside of kernels."""
    return state.grid


@contextmanager
def running_on(grid: Grid) -> Generator[None]:
    """Set the grid point inside the block, in which a kernel runs for it."""
    previous, state.grid = state.grid, grid
    try:
        yield
    finally:
        state.grid = previous
