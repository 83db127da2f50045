"""`bind`, and the current trace that it hands every operation to.

There is one *current trace* at a time (Autodidax 2 and today's JAX work so; Autodidax 1 searches
a stack of traces for the highest level among the operands). A trace that interprets an operation
in terms of others makes its `parent` current while its rule runs. Operands that are tracers of another
trace are constants to it, which is what makes closures and nesting come out right: an inner
trace never looks inside an outer tracer, it passes it on to its parent.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jaxprtool.ir.jaxpr import Primitive

if TYPE_CHECKING:
    from jaxprtool.core.trace import Trace

__all__ = ["bind", "current_trace", "set_base_trace", "set_current_trace", "state"]


class _State(threading.local):
    """The current trace of this thread, and the axis names in scope (None: no names)."""

    def __init__(self) -> None:
        self.trace: Trace = _base[0]
        self.axes: Any = None  # the axes in scope, an `axes.AxisEnv`; None for no axes


_base: list[Any] = [None]


def set_base_trace(trace: Trace) -> None:
    """Install the trace that evaluates, at the bottom of everything."""
    _base[0] = trace
    state.trace = trace


state = _State()


def current_trace() -> Trace:
    """The trace that interprets operations now."""
    return state.trace


def base_trace() -> Trace:
    """The evaluating trace."""
    return _base[0]


class set_current_trace:
    """Make `trace` current inside a `with` block."""

    __slots__ = ("previous", "trace")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> Trace:
        self.previous, state.trace = state.trace, self.trace
        return self.trace

    def __exit__(self, *_: object) -> None:
        state.trace = self.previous


def bind(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a primitive to values, literals or tracers, in the current trace.

    Returns a list for primitives with `multiple_results`, else one value.
    """
    return state.trace.process_primitive(primitive, args, params)
