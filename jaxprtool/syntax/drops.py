"""Results `_` of a jaxpr: which of its `_` binders each of them reads, which the text does not say.

JAX prints a result of the body of a jit as `_` where nobody reads the result of the call.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, Aval, ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.syntax.atoms import Scope, undrop

__all__ = ["Drops"]


class Drops:
    """The jaxprs that have such results, until the equation around them tells the types of those.

    Attributes:
      found: for each of them the places of these results, and its scope.
    """

    def __init__(self) -> None:
        self.found: dict[Jaxpr, tuple[list[int], Scope]] = {}

    def add(
        self, jaxpr: Jaxpr, outs: list[Atom | None], places: list[int], scope: Scope
    ) -> tuple[Atom | None, ...]:
        """The results of a jaxpr with those at some places read from its `_` binders, for now in their order."""
        self.found[jaxpr] = places, scope
        return self._read(jaxpr, outs, [])

    def resolve(self, eqn: JaxprEqn) -> None:
        """Read them again in the jaxprs of an equation, now that its binders tell the types of the results."""
        avals = [v.aval for v in eqn.out_binders]
        for value in eqn.params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.found:
                outs = self._read(value.jaxpr, [*value.jaxpr.outs], avals)
                amend(value.jaxpr, outs=outs)
                del self.found[value.jaxpr]

    def _read(
        self, jaxpr: Jaxpr, outs: list[Atom | None], avals: list[Aval]
    ) -> tuple[Atom | None, ...]:
        """The results, each `_` among them the next `_` binder of its type (of any, if it is not known)."""
        places, scope = self.found[jaxpr]
        drops = scope.drops
        of_type: dict[Any, deque[int]] = {}
        for k, binder in enumerate(drops):
            of_type.setdefault(binder.aval, deque()).append(k)
        free = dict.fromkeys(range(len(drops)))  # in the order of binding
        for i in places:
            fits = of_type.get(avals[i]) if i < len(avals) else None
            while fits and fits[0] not in free:
                fits.popleft()
            k = fits[0] if fits else next(iter(free), 0)
            free.pop(k, None)
            outs[i] = undrop(drops[k])
        return tuple(outs)
