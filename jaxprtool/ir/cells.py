"""What holds inside a block of the program, and is as it was before outside of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["holding"]

T = TypeVar("T")


@contextmanager
def holding(cell: list[T], value: T) -> Generator[None]:
    """Inside the block the first element of a list is a value."""
    cell[0], before = value, cell[0]
    try:
        yield
    finally:
        cell[0] = before
