"""`Env`: what the variables of a jaxpr stand for while it is interpreted."""

from __future__ import annotations

from collections.abc import Iterable

from jaxprtool.ir.jaxpr import Atom, Lit, Value

__all__ = ["Env"]


class Env(dict[Atom, Value]):
    """A value for each variable; literals stand for themselves. Raises KeyError for a variable that is not bound."""

    __slots__ = ()

    def __missing__(self, atom: Atom) -> Value:
        if type(atom) is Lit:
            return atom
        raise KeyError(atom)

    def read(self, atoms: Iterable[Atom]) -> list[Value]:
        """What the atoms stand for."""
        return [*map(self.__getitem__, atoms)]

    def write(self, binders: Iterable[Atom], values: Iterable[Value]) -> None:
        """Bind variables to as many values."""
        self.update(zip(binders, values, strict=True))
