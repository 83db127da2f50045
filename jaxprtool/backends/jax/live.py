"""Param values that stand for objects of a running JAX: they print as JAX prints them, and keep the object."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.frozen import amend, refuse_change, refuse_removal, set_field
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import Opaque, PrintedFunction, Record, Word

__all__ = [
    "LiveFunction",
    "LiveOpaque",
    "LivePrimitive",
    "LiveRecord",
    "LiveWord",
    "Named",
    "live_hints",
    "live_jaxpr",
    "masked_text",
]


# The jaxpr of JAX's that a program was made of.
live_jaxpr = Memo[Any]("jaxpr of JAX's")

# The params of the equation of JAX's that it was in which say how it is run, and nothing of what is computed.
live_hints = Memo[dict[str, Any]]("hints of JAX's")


class LiveOpaque(Opaque):
    """An opaque value that came from a running JAX: its text, and the object itself."""

    __slots__ = ("value",)

    def __init__(self, text: str, value: Any):
        super().__init__(text)
        amend(self, value=value)

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveOpaque, (self.text, self.value)


class LiveFunction(PrintedFunction):
    """The text of a function of Python's that came from a running JAX, and the function."""

    __slots__ = ("value",)

    def __init__(self, text: str, path: tuple[str, ...], value: Any):
        super().__init__(text, path)
        amend(self, value=value)

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveFunction, (self.text, self.path, self.value)


class LiveWord(Word):
    """A bare name that stands for an object of a running JAX, and that object."""

    value: Any
    __setattr__ = refuse_change
    __delattr__ = refuse_removal

    def __new__(cls, text: str, value: Any) -> LiveWord:
        self = super().__new__(cls, text)
        set_field(self, "value", value)
        return self


class LiveRecord(Record):
    """The record of an object of a running JAX, and that object."""

    __slots__ = ("value",)
    value: Any

    @classmethod
    def of(cls, record: Record, value: Any) -> LiveRecord:
        """Return a record with the object that it describes."""
        made = cls(record.name, record.args, **record.fields)
        amend(made, value=value)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveRecord.of, (Record(self.name, self.args, **self.fields), self.value)


class LivePrimitive(Primitive):
    """A primitive that this process declared to JAX, and that nobody declared to this package.

    Attributes:
      value: JAX's primitive.
      given: the params of JAX's equation, where it prints an object's name and params in their
        place; else None.
      rules: the rules that `backends.jax.foreign` makes of JAX's rules of it.
    """

    __slots__ = ("given", "rules", "value")
    keeps_jaxprs = True
    given: dict[str, Any] | None
    rules: Any
    value: Any

    def __init__(self, value: Any, name: str = "", given: dict[str, Any] | None = None):
        super().__init__(name or value.name, multiple_results=True, known=False)
        amend(self, value=value, given=given, rules=None)


class Named:
    """A function that prints as another one, of which only the text is left."""

    def __init__(self, function: Callable[..., Any], text: str):
        self.function, self.text = function, text

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __repr__(self) -> str:
        return self.text


_ADDRESS = re.compile(r" at 0x([0-9a-fA-F]+)")


def masked_text(v: Any, top: bool) -> str:
    """Return JAX's print (inside of containers, where `top` is False, the repr), with addresses masked as JAX does."""
    text = str(v) if top else repr(v)
    return _ADDRESS.sub(lambda m: " at 0x" + "X" * len(m.group(1)), text)
