"""Definitions in Lark's tree that would use themselves, through words in params of primitives that are not known."""

from __future__ import annotations

from collections.abc import Mapping

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Mistaken", "of_themselves"]


class Mistaken(Exception):
    """Names that stand for no jaxpr where a primitive that is not known has them: the text is read again."""

    def __init__(self, names: frozenset[str]):
        super().__init__(", ".join(sorted(names)))
        self.names = names


def of_themselves(shells: Mapping[str, ClosedJaxpr]) -> frozenset[str]:
    """The names of definitions that use themselves, whether in their own jaxpr or in those of others."""
    names = {id(closed): name for name, closed in shells.items()}

    def used(name: str) -> set[str]:
        found: set[str] = set()
        seen: set[int] = set()
        todo: list[Jaxpr] = [shells[name].jaxpr]
        while todo:
            for eqn in todo.pop().eqns:
                for closed in jaxprs_in({**eqn.params}):
                    if id(closed) in seen:
                        continue
                    seen.add(id(closed))
                    if id(closed) in names:
                        found.add(names[id(closed)])
                    todo.append(closed.jaxpr)
        return found

    return frozenset(name for name in shells if name in used(name))
