"""`Kind`: which values a param takes, and how they are read, checked, printed and described.

A primitive declares each of its params with a kind (`core.primitive`); `core.kinds` defines the
kinds.
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
# Whether a text holds what JAX prints, or also what JAX drops.
Style = Literal["jax", "lossless"]


class Kind(ABC):
    """Base class of the kinds of params: the set of values that a param takes.

    Attributes:
      name: the kind as a stub spells it: `int`, `Axes | None`.
      one: a value, in words: `a tuple of integers`.
      many: several values, in words: `tuples of integers`.
      note: what a value means, in words, where `one` does not say it; or "".
      code: the code of the diagnostic for a value that is not of this kind.
      spelling: how a text spells values.
      unchecked: whether every value is of this kind.
      each_operand: whether a value has an item for each operand of its equation.
      each_result: whether a value has an item for each result of its equation.
      holds_jaxprs: whether values are jaxprs, or contain some.
      shows_jaxprs: whether the text of a value may show jaxprs that are no part of the program.
      is_bookkeeping: whether values say nothing about what is computed.
      prints_itself: whether `printed` returns the value itself.
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
        """The alternatives of a choice of kinds; (self,) for any other kind."""
        return (self,)

    def read_text(self, text: str) -> Any:
        """Read a text that the literal grammar would misread; returns `UNREAD` to leave it to the grammar."""
        del text
        return UNREAD

    def read(self, value: ParamValue) -> Any:
        """Convert a value as the literal grammar read it, in the spelling of any release, to this kind.

        A value that cannot be converted is returned unchanged; the checker reports it.
        """
        return value

    def given(self, value: Any) -> Any:
        """Convert a value from Python code (a list, a type or number of NumPy's) to this kind.

        A value that cannot be converted is returned unchanged; the type rules report it.
        """
        return value

    def printed(self, value: ParamValue, style: Style) -> Any:
        """Return the value that the printer writes: the value itself, unless JAX has a spelling of its own for it."""
        del style
        return value

    def source(self, value: ParamValue) -> str:
        """Return a value as a Python expression; `ir.source.NAMES` are the names in it."""
        return python_source(value)

    def describe(self) -> str:
        """Describe the kind in one line."""
        return f"{self.one}: {self.note}" if self.note else self.one

    def __repr__(self) -> str:
        return self.name
