"""The names of values: those of variables, and for arguments of the program also those of the traced function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit

__all__ = ["Arguments", "Called"]


class Arguments:
    """The arguments of a program, with the names that the traced function had for them.

    Attributes:
      interface: the arguments and results of the traced function; None where they are not known.
      labels: the name of each argument: `params["w"]`; empty where they are not known.
    """

    def __init__(self, program: ClosedJaxpr):
        self.interface: Interface | None = program.interface
        self.labels = [] if self.interface is None else self.interface.names()
        binders = program.jaxpr.in_binders if self.labels else ()
        self._of = {v: i for i, v in enumerate(binders)}
        self._found: dict[str, frozenset[int]] = {}

    def called(self, atom: Any) -> Called:
        """Return the names of an atom."""
        name = getattr(atom, "name", None)
        i = None if type(atom) is Lit else self._of.get(atom)
        return Called(name) if i is None else Called(name, i, self)

    def positions(self, name: str) -> frozenset[int]:
        """Return the positions of the arguments that a name means: `params["w"]`, `params.w`, `params/w`; `params` means all its parts."""
        found = self._found.get(name)
        if found is None:
            parts = [] if self.interface is None else self.interface.find(name)
            found = self._found[name] = frozenset(i for p in parts for i in p.positions)
        return found


class Called(NamedTuple):
    """The names of a value.

    Attributes:
      variable: the name of its variable; None where it has none.
      argument: its position among the arguments of the program; -1 where it is none of them, or
        these have no other names.
      of: the arguments of the program, or None.
    """

    variable: str | None
    argument: int = -1
    of: Arguments | None = None

    def has(self, name: str) -> bool:
        """Whether a name is one of these. A name of an argument of the traced function means no other argument."""
        meant = () if self.of is None else self.of.positions(name)
        return self.argument in meant if meant else self.variable == name

    @property
    def texts(self) -> Sequence[str]:
        """All names, for a regular expression."""
        label = [] if self.of is None else [self.of.labels[self.argument]]
        return [*label, *([] if self.variable is None else [self.variable])]
