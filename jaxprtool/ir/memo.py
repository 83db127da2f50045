"""Caches of what is derived from a program. A cached result is computed once and lives as long as the program.

Programs are immutable, so a result that was derived from one stays true. Each module that derives something has a `Memo`
or a `MemoTable` of its own, which names the result and gives its type; no other module reads or writes what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from jaxprtool.ir.frozen import Frozen

__all__ = ["Keeper", "Memo", "MemoTable"]

T = TypeVar("T")


class Keeper(Frozen):
    """An immutable object that keeps what is derived from it.

    Attributes:
      derived: what each `Memo` and `MemoTable` keeps; for them alone.
    """

    __slots__ = ("derived",)
    derived: dict[Any, Any]


class Memo(Generic[T]):
    """A cache of one result per program. None stands for a result that was not derived yet.

    Attributes:
      name: describes the result, for `repr`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"Memo({self.name!r})"

    def find(self, program: Keeper) -> T | None:
        """The result that is kept with a program; None if there is none."""
        return program.derived.get(self)

    def keep(self, program: Keeper, value: T) -> T:
        """Keep a result with a program; returns the result."""
        program.derived[self] = value
        return value

    def of(self, program: Keeper, make: Callable[[], T]) -> T:
        """The result that is kept with a program; the first call derives it with `make()`."""
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
        """The result that is kept with a program under a key; None if there is none."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        return None if table is None else table.get(key)

    def keep(self, program: Keeper, key: Hashable, value: T) -> T:
        """Keep a result with a program under a key; returns the result."""
        program.derived.setdefault(self, {})[key] = value
        return value

    def of(self, program: Keeper, key: Hashable, make: Callable[[], T]) -> T:
        """The result that is kept with a program under a key; the first call derives it with `make()`."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        if table is None:
            table = program.derived[self] = {}
        found = table.get(key)
        if found is None:
            found = table[key] = make()
        return found
