"""The base of immutable objects, and the makers that construct them quickly.

# Note [Makers]

The constructor of a class with a `__setattr__` of its own is slow. So each frozen class that is
constructed often has a maker: a class with the same slots and no `__setattr__`. The `__init__` of
the maker sets the slots and then changes the `__class__` of the object to the frozen class
(`become`). This takes little longer than constructing a mutable object. Where the frozen class has
a frozen base, its maker has the same base and sets `__setattr__` back to that of `object`.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

__all__ = [
    "Frozen",
    "FrozenDict",
    "FrozenList",
    "amend",
    "become",
    "itself",
    "private_array",
    "refuse_change",
    "refuse_removal",
    "set_field",
]

K = TypeVar("K")
T = TypeVar("T")


def refuse_change(self: Any, name: str, value: Any) -> NoReturn:
    """The `__setattr__` of immutable classes: raises AttributeError."""
    kind = type(self).__name__
    raise AttributeError(f"a {kind} does not change; .replace({name}=...) makes another one")


def refuse_removal(self: Any, name: str) -> NoReturn:
    """The `__delattr__` of immutable classes: raises AttributeError."""
    raise AttributeError(f"a {type(self).__name__} does not change")


def itself(self: Any, memo: Any = None) -> Any:
    """The `__copy__` and `__deepcopy__` of immutable classes."""
    return self


class Frozen:
    """Base class of immutable objects. A result derived from one stays valid."""

    __slots__ = ()
    __setattr__ = refuse_change
    __delattr__ = refuse_removal


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError("params do not change; eqn.replace(params={...}) makes another equation")


class FrozenList(list[T]):
    """A list that does not change, in the value of a param; it has a hash, as JAX asks of params."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # type: ignore[assignment]
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


class FrozenDict(dict[K, T]):
    """A dict that does not change: the params of an equation, and dicts in their values."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


# Sets one field of an object under construction, as `amend` sets several.
set_field = object.__setattr__


def amend(x: Any, **fields: Any) -> None:
    """Set fields of an object under construction.

    Only a constructor may call this, before it returns the object.
    """
    for name, value in fields.items():
        set_field(x, name, value)


def become(x: Any, cls: type) -> None:
    """Turn an object that a maker has filled in into an instance of its frozen class.

    CPython compares the slots of both classes. Near the end of its stack that comparison fails; this function then
    raises RecursionError.
    """
    try:
        x.__class__ = cls
    except TypeError:
        raise RecursionError("maximum recursion depth exceeded while making a jaxpr") from None


def private_array(x: Any) -> Any:
    """Return `x` for a program to keep as a constant: a read-only copy of a NumPy array that is writeable.

    An array that is a view of a writeable one is copied too. Anything else is returned as it is.
    """
    owner = x
    while owner is not None and hasattr(owner, "setflags"):
        if owner.flags.writeable:
            x = x.copy()
            x.setflags(write=False)
            break
        owner = owner.base
    return x
