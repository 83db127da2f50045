"""`holding`: set a value for the duration of a `with` block and restore the previous one afterwards."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["holding"]

T = TypeVar("T")


@contextmanager
def holding(cell: list[T], value: T) -> Generator[None]:
    """Set the first element of `cell` to `value` inside the block; restore the previous one at its end."""
    cell[0], before = value, cell[0]
    try:
        yield
    finally:
        cell[0] = before
