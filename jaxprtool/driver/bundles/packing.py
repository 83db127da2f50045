"""Write the values of a program's arguments as a file for `--args`."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.words.values import open_binders
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["argument_names", "packed_args"]


def argument_names(program: ClosedJaxpr) -> list[str]:
    """Return the names of a program's arguments in a file: by the pytrees that they form, else those of the binders.

    Args:
      program: a program that was read from a text, so that its binders have names.
    """
    binders, interface = open_binders(program), of_open(program)
    return [v.name or "" for v in binders] if interface is None else interface.names()


def packed_args(program: ClosedJaxpr, values: Sequence[Value] | None) -> bytes:
    """Return the bytes of an `.npz` file of the arguments by name; empty where there are none.

    Args:
      program: a program that was read from a text, so that its binders have names.
      values: those of the constants that it does not hold, then of its arguments.
    """
    if not values:
        return b""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    return arrays.pack(values, "args.npz", argument_names(program))
