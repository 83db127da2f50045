"""What values are called: by the names of their variables, arguments of the program by those of the traced function too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit

__all__ = ["Arguments", "Called"]


class Arguments:
    """The arguments of a program, whose traced function had names for them.

    Attributes:
      labels: the name of each: `params["w"]`.
    """

    def __init__(self, program: ClosedJaxpr):
        self.interface: Interface | None = program.interface
        self.labels = [] if self.interface is None else self.interface.names()
        binders = program.jaxpr.in_binders if self.labels else ()
        self._of = {v: i for i, v in enumerate(binders)}
        self._found: dict[str, frozenset[int]] = {}

    def called(self, atom: Any) -> Called:
        """What an atom is called."""
        name = getattr(atom, "name", None)
        i = None if type(atom) is Lit else self._of.get(atom)
        return Called(name) if i is None else Called(name, i, self)

    def positions(self, name: str) -> frozenset[int]:
        """The arguments that a name means: `params["w"]`, `params.w`, `params/w`; `params` means all parts of it."""
        found = self._found.get(name)
        if found is None:
            parts = [] if self.interface is None else self.interface.find(name)
            found = self._found[name] = frozenset(i for p in parts for i in p.positions)
        return found


class Called(NamedTuple):
    """What a value is called.

    Attributes:
      variable: the name of its variable; None where it has none.
      argument: which argument of the program it is; -1 where it is none, or these have no other names.
      of: all arguments, or None.
    """

    variable: str | None
    argument: int = -1
    of: Arguments | None = None

    def has(self, name: str) -> bool:
        """Whether it is called so. Where a name is one of the function's arguments, no other argument has it."""
        meant = () if self.of is None else self.of.positions(name)
        return self.argument in meant if meant else self.variable == name

    @property
    def texts(self) -> Sequence[str]:
        """All names, for a regular expression."""
        label = [] if self.of is None else [self.of.labels[self.argument]]
        return [*label, *([] if self.variable is None else [self.variable])]
