"""Kinds made of other kinds (tuples, choices), and the kinds of every value and of None."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.kinds import UNREAD, Kind, Style
from jaxprtool.ir.params import Opaque, ParamValue

__all__ = [
    "NOTHING",
    "Anything",
    "EachOperandOf",
    "EachResultOf",
    "Either",
    "Nothing",
    "PrintedList",
    "TupleOf",
    "either",
    "tuple_of",
    "tuple_of_length",
]


# A NumPy array that a caller gave for a tuple, as it is printed by releases that keep it.
_ARRAY = re.compile(r"\[ *(-?\d+(?: +-?\d+)+) *\]")


class Anything(Kind):
    """Every value."""

    unchecked = True

    def __init__(self, name: str = "Any"):
        super().__init__(name, "a value", "values")

    def fits(self, value: ParamValue) -> bool:
        return True


class Nothing(Kind):
    """None, which stands for no value."""

    def __init__(self) -> None:
        super().__init__("None", "None", "None")

    def fits(self, value: ParamValue) -> bool:
        return value is None


NOTHING = Nothing()


class TupleOf(Kind):
    """Tuples whose items are of one kind; lists are accepted too."""

    def __init__(
        self, item: Kind, length: int | None = None, name: str = "", one: str = "", note: str = ""
    ):
        words = item.many if length is None else f"{length} {item.many}"
        items = f"{item.name}, ..." if length is None else ", ".join([item.name] * length)
        super().__init__(
            name or f"tuple[{items}]", one or f"a tuple of {words}", f"tuples of {words}", note
        )
        self.item, self.length = item, length
        self.unchecked = item.unchecked and not one and length is None
        self.holds_jaxprs = item.holds_jaxprs
        self.prints_itself = self.prints_itself and item.prints_itself

    def fits(self, value: ParamValue) -> bool:
        return (
            isinstance(value, (tuple, list))
            and all(map(self.item.fits, value))
            and (self.length is None or len(value) == self.length)
        )

    def read(self, value: ParamValue) -> Any:
        if type(value) is Opaque and (m := _ARRAY.fullmatch(value.text)):
            value = tuple(map(int, m[1].split()))
        return _mapped(self.item.read, value)

    def given(self, value: Any) -> Any:
        return _mapped(self.item.given, value)

    def printed(self, value: ParamValue, style: Style) -> Any:
        if isinstance(value, list):  # a param of JAX's that JAX prints as a list
            return [self.item.printed(x, style) for x in value]
        return _mapped(lambda x: self.item.printed(x, style), value)


class EachOperandOf(TupleOf):
    """Tuples with an item for each operand."""

    each_operand = True


class EachResultOf(TupleOf):
    """Tuples with an item for each result."""

    each_result = True


class PrintedList(TupleOf):
    """Tuples that JAX holds and prints as lists."""

    prints_itself = False

    def printed(self, value: ParamValue, style: Style) -> Any:
        return list(value) if isinstance(value, tuple) else value


def _mapped(f: Callable[[ParamValue], ParamValue], value: ParamValue) -> ParamValue:
    """Return a tuple or list as a tuple with `f` applied to its items.

    The same object for a tuple in which nothing changed, and for any other value.
    """
    if type(value) is not tuple and not isinstance(value, list):
        return value
    items = tuple(map(f, value))
    same = type(value) is tuple and all(map(operator.is_, items, value))
    return value if same else items


class Either(Kind):
    """The union of several kinds."""

    def __init__(self, parts: tuple[Kind, ...], name: str = ""):
        super().__init__(
            name or " | ".join([k.name for k in parts]),
            ", or ".join(dict.fromkeys([k.one for k in parts])),
            " or ".join(dict.fromkeys([k.many for k in parts])),
            "; ".join([k.note for k in parts if k.note]),
        )
        self._parts = parts
        self.code = parts[0].code
        self.unchecked = any(k.unchecked for k in parts)
        self.holds_jaxprs = any(k.holds_jaxprs for k in parts)
        self.is_bookkeeping = any(k.is_bookkeeping for k in parts)
        self.prints_itself = all(k.prints_itself for k in parts)
        self.each_operand = any(k.each_operand for k in parts)
        self.each_result = any(k.each_result for k in parts)

    @property
    def parts(self) -> tuple[Kind, ...]:
        return self._parts

    def fits(self, value: ParamValue) -> bool:
        return any(k.fits(value) for k in self._parts)

    def read_text(self, text: str) -> Any:
        for kind in self._parts:
            if kind.spelling == "value" and (found := kind.read_text(text)) is not UNREAD:
                return found
        return UNREAD

    def read(self, value: ParamValue) -> Any:
        for kind in self._parts:
            if kind.fits(value):
                return kind.read(value)
        for kind in self._parts:
            found = kind.read(value)
            if found is not value:
                return found
        return value

    def given(self, value: Any) -> Any:
        for kind in self._parts:
            if kind.fits(found := kind.given(value)):
                return found
        return value

    def printed(self, value: ParamValue, style: Style) -> Any:
        for kind in self._parts:
            if kind.fits(value):
                return kind.printed(value, style)
        return value


@functools.cache
def tuple_of(item: Kind) -> Kind:
    """Return the kind of tuples of any length with items of a kind."""
    return TupleOf(item)


@functools.cache
def tuple_of_length(item: Kind, length: int) -> Kind:
    """Return the kind of tuples of a fixed length with items of a kind."""
    return TupleOf(item, length)


@functools.cache
def either(*kinds: Kind, name: str = "") -> Kind:
    """Return the union of some kinds.

    Args:
      kinds: the choices.
      name: its name; by default the names of `kinds` with `|` between them.
    """
    parts = tuple(dict.fromkeys(k for kind in kinds for k in kind.parts))
    return (
        parts[0] if len(parts) == 1 else Either(parts, name or " | ".join([k.name for k in kinds]))
    )
