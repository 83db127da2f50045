"""The kind of a param: what values it takes, and how they are read, checked, printed, written as Python and described.

A primitive declares each of its params with one (`core.primitive`); `core.kinds` defines the kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.source import python_source

__all__ = ["UNREAD", "Kind", "Spelling", "Style"]


class _Unread:
    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Any = _Unread()

# How a text spells values: in the literal grammar, as a type, as a name (which may hold anything but the end of a param),
# or freely.
Spelling = Literal["value", "type", "name", "free"]
# What JAX prints, or also what it drops.
Style = Literal["jax", "lossless"]


class Kind(ABC):
    """What values a param takes.

    Attributes:
      name: as a stub spells it: `int`, `Axes | None`.
      one: a value, in words: `a tuple of integers`.
      many: several values, in words: `tuples of integers`.
      note: what `one` does not say of the meaning, in words, or "".
      code: of the diagnostic on a value that is not of this kind.
      spelling: how a text spells values.
      unchecked: whether every value is of this kind.
      each_operand, each_result: whether a value has an item for each operand, or each result, of its equation.
      holds_jaxprs: whether values are jaxprs, or hold some.
      shows_jaxprs: whether the text of a value may show jaxprs that are no part of the program.
      is_bookkeeping: whether values say nothing about what is computed.
      prints_itself: whether `printed` is the value itself.
    """

    code = "bad-param"
    spelling: Spelling = "value"
    unchecked = False
    each_operand = False
    each_result = False
    holds_jaxprs = False
    shows_jaxprs = False
    is_bookkeeping = False
    prints_itself = True

    def __init__(self, name: str, one: str, many: str, note: str = ""):
        self.name, self.one, self.many, self.note = name, one, many, note

    @abstractmethod
    def fits(self, value: ParamValue) -> bool:
        """Whether a value is of this kind."""

    @property
    def parts(self) -> tuple[Kind, ...]:
        """The kinds that this one is a choice of: itself alone, where it is none."""
        return (self,)

    def read_text(self, text: str) -> Any:
        """Read a text that the literal grammar would read as another value; returns `UNREAD` to leave it to the grammar."""
        del text
        return UNREAD

    def read(self, value: ParamValue) -> Any:
        """Convert what the literal grammar read, in the spelling of any release, to a value of this kind.

        A value that cannot be converted is returned unchanged; the checker reports it.
        """
        return value

    def given(self, value: Any) -> Any:
        """Convert what Python code gives for the param (a list, a type or a number of NumPy's) to a value of this kind.

        A value that cannot be converted is returned unchanged; the type rules report it.
        """
        return value

    def printed(self, value: ParamValue, style: Style) -> Any:
        """The value that the printer writes for a value: the value itself, unless JAX has its own spelling for it."""
        del style
        return value

    def source(self, value: ParamValue) -> str:
        """A value as a Python expression; `ir.source.NAMES` are the names in it."""
        return python_source(value)

    def describe(self) -> str:
        """The kind in one line."""
        return f"{self.one}: {self.note}" if self.note else self.one

    def __repr__(self) -> str:
        return self.name
