"""Calls of a compiled program whose arguments are on the device already, with as little Python as there can be.

`jax.jit` dispatches in C++. A function of Python for any number of arguments (lists, the check of each type) takes longer,
for small programs by a tenth of the call; so there is a function for each number of arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["placed_call"]

# Programs with more arguments than this do not notice.
_MOST = 64
_MISSING: Any = object()

_SOURCE = """
def make(execute, handlers, general, cannot_run, kinds):
    {kinds} = kinds
    def call({binders}*rest):
        try:
            if {fits}not rest:
                return execute([{buffers}]).consume_with_handlers(handlers)
        except AttributeError:  # an argument of the host's
            pass
        except RuntimeError as e:
            cannot_run(e)
        return general(*[x for x in ({arguments}*rest,) if x is not MISSING])
    return call
"""


@functools.cache
def _maker(n: int) -> Callable[..., Callable[..., list[Any]]]:
    """Makes the function for `n` arguments of a program."""
    numbers = range(n)
    source = _SOURCE.format(
        kinds=f"[{', '.join(f'k{i}' for i in numbers)}]",
        binders="".join(f"a{i}=MISSING, " for i in numbers),
        fits="".join(f"a{i}._kind is k{i} and " for i in numbers),
        buffers=", ".join(f"a{i}._buffer" for i in numbers),
        arguments="".join(f"a{i}, " for i in numbers),
    )
    names: dict[str, Any] = {"MISSING": _MISSING}
    exec(source, names)
    return names["make"]


def placed_call(
    execute: Callable[..., Any],
    handlers: Sequence[Any],
    kinds: Sequence[Any],
    general: Callable[..., list[Any]],
    cannot_run: Callable[[RuntimeError], Any],
) -> Callable[..., list[Any]]:
    """A function that does what `general` does, sooner where all arguments are on the device.

    Args:
      execute: XLA's, from a list of buffers.
      handlers: of the results.
      kinds: the types of the arguments, as `DeviceArray._kind` has them.
      general: takes whatever the arguments are, and however many.
      cannot_run: raises what a failed run is reported as.
    """
    if len(kinds) > _MOST:
        return general
    return _maker(len(kinds))(execute, handlers, general, cannot_run, kinds)
