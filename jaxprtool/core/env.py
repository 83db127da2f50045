"""`Env`: the values of the variables of a jaxpr while an interpreter runs it."""

from __future__ import annotations

from collections.abc import Iterable

from jaxprtool.ir.jaxpr import Atom, Lit, Value

__all__ = ["Env"]


class Env(dict[Atom, Value]):
    """A value for each variable; the value of a literal is the literal itself. Raises KeyError for a variable that is not bound."""

    __slots__ = ()

    def __missing__(self, atom: Atom) -> Value:
        if type(atom) is Lit:
            return atom
        raise KeyError(atom)

    def read(self, atoms: Iterable[Atom]) -> list[Value]:
        """Return the values of atoms."""
        return [*map(self.__getitem__, atoms)]

    def write(self, binders: Iterable[Atom], values: Iterable[Value]) -> None:
        """Bind variables to values. Raises ValueError where their numbers differ."""
        self.update(zip(binders, values, strict=True))
