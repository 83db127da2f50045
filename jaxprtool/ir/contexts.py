"""`holding`: set a context variable for the duration of a `with` block and restore it afterwards."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["holding"]

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Generator[None]:
    """Set a context variable to `value` inside the block; restore the previous one at its end.

    Other threads do not see the value.
    """
    before = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(before)
