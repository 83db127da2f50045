"""`bind`, and the current trace that it hands every operation to.

There is one *current trace* at a time (Autodidax 2 and today's JAX work so; Autodidax 1 searches
a stack of traces for the highest level among the operands). A trace that interprets an operation
in terms of others makes its `parent` current while its rule runs. Operands that are tracers of another
trace are constants to it, which is what makes closures and nesting come out right: an inner
trace never looks inside an outer tracer, it passes it on to its parent.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jaxprtool.core.gateways import gateways
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Primitive, Value
from jaxprtool.ir.origin import Origin

if TYPE_CHECKING:
    from jaxprtool.core.axes import AxisEnv
    from jaxprtool.core.trace import Trace

__all__ = [
    "bind",
    "in_place",
    "interpreted",
    "keep_origin",
    "set_current_trace",
    "state",
]


class _State(threading.local):
    """The state of a thread, which decides how `bind` interprets an operation.

    Attributes:
      trace: the current trace.
      axes: the axes with names in scope, an `axes.AxisEnv`; None for no axes.
      origin: the origin of the equation that is being interpreted, which the equations made from it get; or None.
    """

    trace: Trace

    def __init__(self) -> None:
        self.axes: AxisEnv | None = None
        self.origin: Origin | None = None

    def __getattr__(self, name: str) -> Any:
        if name != "trace":
            raise AttributeError(name)
        self.trace = base_trace()  # before the first operation of the thread
        return self.trace


@functools.cache
def base_trace() -> Trace:
    """The evaluating trace, which is current where no transformation runs."""
    return gateways.base_trace()


state = _State()


@functools.cache
def _load_operators() -> None:
    """Give tracers their operators, before there are any."""
    gateways.load_operators()


class set_current_trace:
    """Make `trace` current inside a `with` block."""

    __slots__ = ("origin", "previous", "trace")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> Trace:
        _load_operators()
        self.previous, state.trace = state.trace, self.trace
        self.origin = state.origin
        return self.trace

    def __exit__(self, *_: object) -> None:
        state.trace, state.origin = self.previous, self.origin


class keep_origin:
    """Restore the current origin at the end of a `with` block, also where an equation fails."""

    __slots__ = ("origin",)

    def __enter__(self) -> None:
        self.origin = state.origin

    def __exit__(self, *_: object) -> None:
        state.origin = self.origin


def interpreted(eqns: Sequence[JaxprEqn]) -> Iterable[JaxprEqn]:
    """Iterate over equations. While one is interpreted, the equations that are made from it get its origin.

    Use it inside of `set_current_trace` or `keep_origin`, which restore the origin when an equation fails.
    """
    return _one_by_one(eqns) if any(map(_origin_of, eqns)) else eqns


def in_place(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr to inline in the place of the equation that is being interpreted, which holds it.

    The name stacks of its equations, relative to that equation before, become absolute. Equations of unknown origin get
    the origin of that equation.
    """
    outer = state.origin
    if outer is None or (not outer.names and all(map(_origin_of, jaxpr.eqns))):
        return jaxpr
    return jaxpr.replace(eqns=[e.with_origin(outer.of_inner(e.origin)) for e in jaxpr.eqns])


_origin_of = operator.attrgetter("origin")


def _one_by_one(eqns: Sequence[JaxprEqn]) -> Iterator[JaxprEqn]:
    outer = state.origin
    for eqn in eqns:
        state.origin = eqn.origin
        yield eqn
    state.origin = outer


def bind(primitive: Primitive, *args: Value, **params: Any) -> Value:
    """Apply a primitive to values, literals or tracers, in the current trace.

    Returns a list for primitives with `multiple_results`, else one value.
    """
    return state.trace.process_primitive(primitive, args, params)
