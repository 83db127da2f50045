"""Calls of a compiled program whose arguments are already on the device, with as little Python as possible.

`jax.jit` dispatches in C++, so each step of Python counts for a small program. The first two
functions are for programs of one argument and of two, where the loops of the third would take a
twentieth of the call; with more arguments JAX takes longer. `python -m tests.bench --only calls`
measures it.
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
    """Return a function that does what `general` does, faster where all arguments are on the device.

    Args:
      execute: starts the program on a list of buffers, `client.executor`.
      handlers: the handlers of the results.
      kinds: the types of the arguments, in the form of `DeviceArray._kind`.
      general: takes any arguments, and any number of them.
      cannot_run: raises the error that reports a failed run.
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
