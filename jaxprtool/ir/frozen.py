"""Objects that cannot change, and how they are made quickly.

# Note [Makers]

An object whose class has `__setattr__` is slow to fill in. So each frozen class that is made often has a maker: a class of
the same slots without `__setattr__`, whose `__init__` sets them and then makes the object one of the frozen class.
Calling the maker takes little longer than making an object that can change.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Frozen", "amend", "become", "refuse_change", "refuse_removal"]


def refuse_change(self: Any, name: str, value: Any) -> NoReturn:
    """`__setattr__` of what cannot change."""
    kind = type(self).__name__
    raise AttributeError(f"a {kind} does not change; .replace({name}=...) makes another one")


def refuse_removal(self: Any, name: str) -> NoReturn:
    """`__delattr__` of what cannot change."""
    raise AttributeError(f"a {type(self).__name__} does not change")


class Frozen:
    """What cannot change: everything that was derived from it, by whatever interpreter, stays true."""

    __slots__ = ()
    __setattr__ = refuse_change
    __delattr__ = refuse_removal


_set = object.__setattr__


def amend(x: Any, **fields: Any) -> None:
    """Change an object that is still being built: for its maker alone, before anybody else has seen it."""
    for name, value in fields.items():
        _set(x, name, value)


def become(x: Any, cls: type) -> None:
    """Make an object that a maker has filled in one of its frozen class.

    CPython compares the slots of both classes, and at the end of its stack takes them for different ones.
    """
    try:
        x.__class__ = cls
    except TypeError:
        raise RecursionError("maximum recursion depth exceeded while making a jaxpr") from None
