"""Caches of results derived from a program.

A result is computed once and lives as long as the program.

Programs are immutable, so a derived result stays valid. Each module that derives something has a
`Memo` or a `MemoTable` of its own, which names the result and gives its type; no other module reads
or writes its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from jaxprtool.ir.frozen import Frozen

__all__ = ["Keeper", "Memo", "MemoTable"]

T = TypeVar("T")


class Keeper(Frozen):
    """An immutable object that stores results derived from it.

    Attributes:
      derived: the entries of the `Memo`s and `MemoTable`s; only they access it.
    """

    __slots__ = ("derived",)
    derived: dict[Any, Any]


class Memo(Generic[T]):
    """A cache of one result per program. None means that the result was not derived yet.

    Attributes:
      name: describes the result, for `repr`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"Memo({self.name!r})"

    def find(self, program: Keeper) -> T | None:
        """Return the cached result of a program; None if there is none."""
        return program.derived.get(self)

    def keep(self, program: Keeper, value: T) -> T:
        """Cache a result for a program; returns the result."""
        program.derived[self] = value
        return value

    def of(self, program: Keeper, make: Callable[[], T]) -> T:
        """Return the cached result of a program; the first call derives it with `make()`."""
        found = program.derived.get(self)
        if found is None:
            found = program.derived[self] = make()
        return found


class MemoTable(Generic[T]):
    """A cache of several results per program, each under a key.

    Attributes:
      name: describes the results, for `repr`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"MemoTable({self.name!r})"

    def find(self, program: Keeper, key: Hashable) -> T | None:
        """Return the cached result of a program under a key; None if there is none."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        return None if table is None else table.get(key)

    def keep(self, program: Keeper, key: Hashable, value: T) -> T:
        """Cache a result for a program under a key; returns the result."""
        program.derived.setdefault(self, {})[key] = value
        return value

    def of(self, program: Keeper, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of a program under a key; the first call derives it with `make()`."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        if table is None:
            table = program.derived[self] = {}
        found = table.get(key)
        if found is None:
            found = table[key] = make()
        return found
