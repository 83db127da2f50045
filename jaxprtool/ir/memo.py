"""What is derived from a program and kept with it: found once, and alive as long as the program.

Programs cannot change, so what was derived from one stays true. Each module that derives something has a `Memo` or a
`MemoTable` of its own, which names it and says of what type it is; nobody else reads or writes what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from jaxprtool.ir.frozen import Frozen

__all__ = ["Keeper", "Memo", "MemoTable"]

T = TypeVar("T")


class Keeper(Frozen):
    """Something that cannot change, with a place for what is derived from it.

    Attributes:
      derived: what each `Memo` and `MemoTable` keeps; for them alone.
    """

    __slots__ = ("derived",)
    derived: dict[Any, Any]


class Memo(Generic[T]):
    """One thing that is derived from a program. None stands for what was not derived yet.

    Attributes:
      name: what it is, for whoever looks at it.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"Memo({self.name!r})"

    def find(self, program: Keeper) -> T | None:
        """What is kept with a program."""
        return program.derived.get(self)

    def keep(self, program: Keeper, value: T) -> T:
        """Keep a value with a program; returns the value."""
        program.derived[self] = value
        return value

    def of(self, program: Keeper, make: Callable[[], T]) -> T:
        """What is kept with a program: what `make()` gives, the first time."""
        found = program.derived.get(self)
        if found is None:
            found = program.derived[self] = make()
        return found


class MemoTable(Generic[T]):
    """Things of one kind that are derived from a program, one for each way to do it.

    Attributes:
      name: what they are, for whoever looks at them.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"MemoTable({self.name!r})"

    def find(self, program: Keeper, key: Hashable) -> T | None:
        """What is kept with a program under a key."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        return None if table is None else table.get(key)

    def keep(self, program: Keeper, key: Hashable, value: T) -> T:
        """Keep a value with a program under a key; returns the value."""
        program.derived.setdefault(self, {})[key] = value
        return value

    def of(self, program: Keeper, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept with a program under a key: what `make()` gives, the first time."""
        table: dict[Hashable, T] | None = program.derived.get(self)
        if table is None:
            table = program.derived[self] = {}
        found = table.get(key)
        if found is None:
            found = table[key] = make()
        return found
