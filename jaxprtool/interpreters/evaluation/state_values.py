"""Values that are no arrays: tokens, and the cells that references point to."""

from __future__ import annotations

from typing import Any

from jaxprtool.ir.avals import AbstractToken, RefType
from jaxprtool.ir.jaxpr import Value

__all__ = ["Cell", "Token"]


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
