"""Calls of a compiled program whose arguments are on the device already, with as little Python as there can be.

`jax.jit` dispatches in C++, so each step of Python counts for a small program. The first two functions are those of programs
of one argument and of two, for which the loops of the third take a twentieth of the call; with more arguments JAX takes longer.
`python -m tests.bench --only calls` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool.backends.xla.client import with_handlers

__all__ = ["placed_call"]

Call = Callable[..., list[Any]]


def placed_call(
    execute: Callable[..., Any],
    handlers: Sequence[Any],
    kinds: Sequence[Any],
    general: Call,
    cannot_run: Callable[[RuntimeError], NoReturn],
) -> Call:
    """A function that does what `general` does, sooner where all arguments are on the device.

    Args:
      execute: starts the program on a list of buffers, `client.executor`.
      handlers: of the results.
      kinds: the types of the arguments, as `DeviceArray._kind` has them.
      general: takes whatever the arguments are, and however many.
      cannot_run: raises what a failed run is reported as.
    """
    make = {1: _of_one, 2: _of_two}.get(len(kinds), _of_any)
    return make(execute, handlers, kinds, general, cannot_run)


def _of_one(execute: Any, handlers: Any, kinds: Any, general: Call, cannot_run: Any) -> Call:
    (kind,) = kinds

    def call(*args: Any) -> list[Any]:
        try:
            (a,) = args
            if a._kind is kind:
                return with_handlers(execute([a._buffer]), handlers)
        except (AttributeError, ValueError):  # an argument of the host's, or not one argument
            pass
        except RuntimeError as e:
            cannot_run(e)
        return general(*args)

    return call


def _of_two(execute: Any, handlers: Any, kinds: Any, general: Call, cannot_run: Any) -> Call:
    kind_a, kind_b = kinds

    def call(*args: Any) -> list[Any]:
        try:
            a, b = args
            if a._kind is kind_a and b._kind is kind_b:
                return with_handlers(execute([a._buffer, b._buffer]), handlers)
        except (AttributeError, ValueError):  # an argument of the host's, or not two arguments
            pass
        except RuntimeError as e:
            cannot_run(e)
        return general(*args)

    return call


def _of_any(execute: Any, handlers: Any, kinds: Any, general: Call, cannot_run: Any) -> Call:
    kinds = list(kinds)

    def call(*args: Any) -> list[Any]:
        try:
            if [x._kind for x in args] == kinds:
                return with_handlers(execute([x._buffer for x in args]), handlers)
        except AttributeError:  # an argument of the host's
            pass
        except RuntimeError as e:
            cannot_run(e)
        return general(*args)

    return call
