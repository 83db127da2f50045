"""Rewrite jaxprs with the named axes of the equations around them in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaxprtool.core.bind import state
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ops.parallel import inner_axes

__all__ = ["Scoped"]


class Scoped:
    """One run over a program; a jaxpr that occurs twice is rewritten once for each set of axis names in scope."""

    def __init__(self, make: Callable[[ClosedJaxpr], ClosedJaxpr]):
        """make: rewrites a jaxpr; it calls `closed` for those inside."""
        self._make = make
        self._done: dict[tuple[ClosedJaxpr, Any], ClosedJaxpr] = {}

    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """Return the rewritten jaxpr in the present scope."""
        key = program, state.axes
        found = self._done.get(key)
        if found is None:
            found = self._done[key] = self._make(program)
        return found

    @contextmanager
    def inside(self, eqn: JaxprEqn) -> Iterator[None]:
        """Enter the scope of the jaxprs in the params of an equation."""
        outer = state.axes
        try:
            state.axes = inner_axes(eqn) or outer
            yield
        finally:
            state.axes = outer
