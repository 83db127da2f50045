"""The base of immutable objects, and the makers that construct them quickly.

# Note [Makers]

An object whose class has `__setattr__` is slow to fill in. So each frozen class that is made often has a maker: a class of
the same slots without `__setattr__`, whose `__init__` sets them and then makes the object one of the frozen class.
Calling the maker takes little longer than making an object that can change.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Frozen", "amend", "become", "refuse_change", "refuse_removal"]


def refuse_change(self: Any, name: str, value: Any) -> NoReturn:
    """The `__setattr__` of immutable classes: raises AttributeError."""
    kind = type(self).__name__
    raise AttributeError(f"a {kind} does not change; .replace({name}=...) makes another one")


def refuse_removal(self: Any, name: str) -> NoReturn:
    """The `__delattr__` of immutable classes: raises AttributeError."""
    raise AttributeError(f"a {type(self).__name__} does not change")


class Frozen:
    """Base class of immutable objects. What an interpreter derives from one stays true."""

    __slots__ = ()
    __setattr__ = refuse_change
    __delattr__ = refuse_removal


_set = object.__setattr__


def amend(x: Any, **fields: Any) -> None:
    """Set fields of an object under construction. Only its constructor may call this, before it hands the object out."""
    for name, value in fields.items():
        _set(x, name, value)


def become(x: Any, cls: type) -> None:
    """Turn an object that a maker has filled in into an instance of its frozen class.

    CPython compares the slots of both classes. Near the end of its stack that comparison fails; this function then
    raises RecursionError.
    """
    try:
        x.__class__ = cls
    except TypeError:
        raise RecursionError("maximum recursion depth exceeded while making a jaxpr") from None
