"""Values that are no arrays: tokens, the cells that references point to, and boxes."""

from __future__ import annotations

from typing import Any

from jaxprtool.ir.avals import AbstractToken, OpaqueType, RefType
from jaxprtool.ir.jaxpr import Value

__all__ = ["Box", "Cell", "Token", "snapshot"]


class Token:
    """A token: an operation that takes it happens after the one that returned it. It holds no data."""

    __slots__ = ()
    aval = AbstractToken()

    def __repr__(self) -> str:
        return "Token()"


class Cell:
    """The cell that a reference points to.

    Attributes:
      value: the array in it, which belongs to the cell and is changed in place.
      aval: the reference's type.
    """

    __slots__ = ("aval", "value")

    def __init__(self, value: Value, aval: RefType):
        self.value, self.aval = value, aval

    def __getitem__(self, i: int) -> Cell:
        """Return part i along the first axis as a cell of its own; it is a view: writing to it writes to this cell."""
        inner: Any = self.aval.inner
        return Cell(self.value[i, ...], RefType(inner.update(shape=inner.shape[1:])))

    def __repr__(self) -> str:
        return f"Cell<{self.aval}>"


class Box:
    """A mutable list of values, whose type does not tell the types of these.

    Attributes:
      values: what is in it now.
    """

    __slots__ = ("values",)
    aval = OpaqueType("BoxTy")

    def __init__(self) -> None:
        self.values: list[Value] = []

    def __repr__(self) -> str:
        return f"Box({len(self.values)})"


def snapshot(value: Value) -> Value:
    """Return a value that later writes do not change: a cell and a box are copied, with what they hold now."""
    if type(value) is Cell:
        return Cell(value.value.copy(), value.aval)
    if type(value) is Box:
        copy = Box()
        copy.values = list(value.values)
        return copy
    return value
