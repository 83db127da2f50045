"""`bind`, and the current trace, to which it hands every operation.

There is one *current trace* at a time, as in Autodidax 2 and today's JAX (Autodidax 1 searches a
stack of traces for the highest level among the operands). A trace that interprets an operation in
terms of others makes its `parent` current while its rule runs. It treats operands that are tracers
of another trace as constants, which makes closures and nesting come out right: an inner trace never
looks inside an outer tracer, but passes it on to its parent.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jaxprtool.core.gateways import gateways
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Primitive, Value

if TYPE_CHECKING:
    from jaxprtool.core.axes import AxisEnv
    from jaxprtool.core.trace import Trace

__all__ = [
    "NO_EQN",
    "bind",
    "in_place",
    "interpreted",
    "interpreting",
    "set_current_trace",
    "state",
]


# The value of `state.eqn` while no equation is being interpreted: it has neither span nor origin.
NO_EQN: Any = JaxprEqn(None, (), {}, ())  # type: ignore[arg-type]


class _State(threading.local):
    """The state of a thread, which decides how `bind` interprets an operation.

    Attributes:
      trace: the current trace.
      axes: the named axes in scope, an `axes.AxisEnv`; None for no axes.
      grid: the grid point for which a kernel runs, an `interpreters.evaluation.grid.Grid`; None
        outside of kernels.
      eqn: the equation that is being interpreted, or `NO_EQN`. Equations made from it get its span
        and its origin, and errors get its position.
    """

    trace: Trace

    def __init__(self) -> None:
        self.axes: AxisEnv | None = None
        self.grid: Any = None
        self.eqn: JaxprEqn = NO_EQN

    def __getattr__(self, name: str) -> Any:
        if name != "trace":
            raise AttributeError(name)
        self.trace = base_trace()  # before the first operation of the thread
        return self.trace


@functools.cache
def base_trace() -> Trace:
    """Return the evaluating trace, which is current where no transformation runs."""
    return gateways.base_trace()


state = _State()


@functools.cache
def _load_operators() -> None:
    """Give the class of tracers its operators, before the first trace becomes current."""
    gateways.load_operators()


class interpreting:
    """A `with` block in which loops over `interpreted(eqns)` interpret equations.

    An error that leaves the block gets the position of the current equation, unless an inner block
    gave it one. The end of the block restores the equation that was current before, also after an
    error.
    """

    __slots__ = ("eqn",)

    def __enter__(self) -> Any:
        self.eqn = state.eqn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, JaxprToolError):
            error.placed_at(state.eqn)
        state.eqn = self.eqn


class set_current_trace(interpreting):
    """Make `trace` current inside a `with` block, in which equations are interpreted."""

    __slots__ = ("previous", "trace")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> Trace:
        _load_operators()
        self.previous, state.trace = state.trace, self.trace
        self.eqn = state.eqn
        return self.trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        state.trace = self.previous
        super().__exit__(kind, error, at)


def interpreted(eqns: Sequence[JaxprEqn]) -> Iterator[JaxprEqn]:
    """Iterate over equations, and make each the current one (`state.eqn`) during its turn.

    Use it inside of `set_current_trace` or `interpreting`, which give errors the position of the
    equation.
    """
    outer = state.eqn
    for eqn in eqns:
        state.eqn = eqn
        yield eqn
    state.eqn = outer


def in_place(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr of the current equation, for inlining in the place of that equation.

    The name stacks of its equations, which are relative to the current equation, become absolute.
    Equations of unknown origin get the origin of the current equation.
    """
    outer = state.eqn.origin
    if outer is None or (not outer.names and all(map(_origin_of, jaxpr.eqns))):
        return jaxpr
    return jaxpr.replace(eqns=[e.with_origin(outer.of_inner(e.origin)) for e in jaxpr.eqns])


_origin_of = operator.attrgetter("origin")


def bind(primitive: Primitive, *args: Value, **params: Any) -> Value:
    """Apply a primitive to values, literals or tracers, in the current trace.

    Returns a list for primitives with `multiple_results`, else one value.
    """
    return state.trace.process_primitive(primitive, args, params)
