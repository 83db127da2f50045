"""Objects that cannot change, and how they are made quickly."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Frozen", "amend", "new", "no_stack", "twin"]


class Frozen:
    """What cannot change: everything that was derived from it, by whatever interpreter, stays true."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        kind = type(self).__name__
        raise AttributeError(f"a {kind} does not change; .replace({name}=...) makes another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change")


# Setting the slots of an object whose class has `__setattr__` is slow, so each of these objects is filled in as an
# instance of a twin of its class, which has the same slots and no `__setattr__`, and then becomes one of its class.
new = object.__new__
_set = object.__setattr__


def twin(name: str, slots: tuple[str, ...]) -> Any:
    """The twin of a frozen class of these slots."""
    return type(name, (Frozen,), {"__slots__": slots, "__setattr__": _set})


def no_stack() -> NoReturn:
    """CPython compares the slots of both classes, and at the end of the stack takes them for different ones."""
    raise RecursionError("maximum recursion depth exceeded while making a jaxpr")


def amend(x: Any, **fields: Any) -> None:
    """Change an object that is still being built: for its maker alone, before anybody else has seen it."""
    for name, value in fields.items():
        _set(x, name, value)
