"""A lowered program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import Aval, Value

__all__ = ["StableHLO"]


class StableHLO:
    """A lowered program. `str()` of it is the text.

    Attributes:
      text: the module.
      in_avals, out_avals: types of the arguments (constants without a value first) and results.
      callbacks: the Python functions that the text calls by their positions here.
      devices: the number of devices that it runs on.
      interface: the names and trees of arguments and results, where they are known.
    """

    __slots__ = ("callbacks", "devices", "in_avals", "interface", "out_avals", "text")

    def __init__(
        self,
        text: str,
        in_avals: list[Aval],
        out_avals: list[Aval],
        callbacks: Sequence[Callable[..., Value]] = (),
        devices: int = 1,
        interface: Interface | None = None,
    ):
        self.text, self.in_avals, self.out_avals = text, in_avals, out_avals
        self.callbacks, self.devices, self.interface = list(callbacks), devices, interface

    def __str__(self) -> str:
        return self.text
