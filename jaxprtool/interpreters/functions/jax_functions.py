"""Functions written with JAX, under the transformations of this package.

JAX's functions do not accept the tracers of this package, and do not know its named axes. Where
calling a function fails for this reason, JAX traces it on the types of its arguments, and the
resulting program is applied in its place. Python's `if` on a value is then an error in it, as under
`jax.jit`.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from jaxprtool.core.bind import state
from jaxprtool.core.gateways import gateways
from jaxprtool.core.trace import Tracer
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Value

__all__ = ["call"]


def call(f: Callable[..., Value], args: Sequence[Value]) -> Value:
    """Return `f(*args)`, where some leaves of `args` are tracers of this package and `f` may be written with JAX.

    Raises:
      UsageError: `f` is no function; or it is written with JAX, and uses a tracer that is no
        argument of it.
    """
    if not callable(f):
        _refuse_as_function(f)
    trace = state.trace
    mark = trace.mark()
    try:
        return f(*args)
    except (
        TypeError,
        AttributeError,
        NameError,
    ) as error:  # NameError: for the name of an axis that we bind
        if not _refused_by_jax(error):
            raise
    trace.forget(mark)
    try:
        return gateways.apply_jax_function(f, args)
    except TypeError as error:  # JAX's exceptions for conversions of tracers are of this class too
        if not (_names_tracer(error) or _modules(error)[-1].startswith("jaxprtool.")):
            raise
        name = getattr(f, "__name__", type(f).__name__)
        fail(
            UsageError,
            f"{name} is written with JAX and closes over a value that jaxprtool transforms",
            "jax-function",
            help="give that value as an argument, or trace the whole function: jaxprtool.trace(f, *args)",
        )


def _refuse_as_function(f: object) -> NoReturn:
    """Raise UsageError for a program, or another object that is no function."""
    if isinstance(f, (ClosedJaxpr, Jaxpr)):
        how = "jaxprtool.jaxpr_as_fun(program) makes a function of it, of flat arguments and a list of results"
        fail(
            UsageError, "a program is given where a function is needed", "not-a-function", help=how
        )
    message = f"a function is needed, not {reprlib.repr(f)} of type {type(f).__name__}"
    fail(UsageError, message, "not-a-function")


def _refused_by_jax(error: Exception) -> bool:
    """Whether an exception says that JAX, or an attribute that its arrays have, met a tracer of this package."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    if isinstance(error, AttributeError):
        return isinstance(error.obj, Tracer) and hasattr(jax.Array, error.name or "")
    return _names_tracer(error) or any(m.startswith("jax.") for m in _modules(error))


def _names_tracer(error: Exception) -> bool:
    """Whether a message from JAX shows such a tracer or its class.

    JAX's own frames are often hidden.
    """
    if isinstance(error, JaxprToolError):
        return False
    names = ["jaxprtool.", *[f"{c.__name__}<" for c in Tracer.__subclasses__()]]
    return any(name in str(error) for name in names)


def _modules(error: Exception) -> list[str]:
    """Return the modules whose code raised an exception, outermost first."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at.tb_frame.f_globals.get("__name__", ""))
        at = at.tb_next
    return found
