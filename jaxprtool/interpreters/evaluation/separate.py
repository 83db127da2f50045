"""Evaluations in threads of their own, beside the one that starts them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from jaxprtool.interpreters.evaluation.limits import limited_steps, no_loops
from jaxprtool.interpreters.evaluation.observe import computed_by, observed_by

__all__ = ["separate"]

T = TypeVar("T")


def separate(f: Callable[[], T]) -> Callable[[], T]:
    """Return a function that calls f in a context of its own, for another thread.

    The context has the present limits, and no running loops, observer or functions.
    """
    context = copy_context()

    def begun() -> T:
        with limited_steps(), no_loops(), observed_by(None), computed_by(None):
            return f()

    return lambda: context.run(begun)
