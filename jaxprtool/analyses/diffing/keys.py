"""Signatures for a comparison that ignores something; those of equations are remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.diffing.equation_order import canonical_order
from jaxprtool.analyses.diffing.ignored import NOTHING_IGNORED, Ignored
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["Keys"]


class Keys(Signatures):
    """Signatures of what is not ignored.

    Attributes:
      ignored: what makes no difference.
      labels: see `equation_order.Numbers`.
    """

    def __init__(self, ignored: Ignored = NOTHING_IGNORED) -> None:
        super().__init__()
        self.ignored = ignored
        self._plain = ignored.all_params_count
        self.labels: dict[Jaxpr, list[Any]] = {}
        self._shallow: tuple[dict[JaxprEqn, int], dict[JaxprEqn, int]] = ({}, {})

    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> int:
        known = self._shallow[nested and eqn.primitive.holds_jaxprs]
        found = known.get(eqn)
        if found is None:
            found = known[eqn] = super().shallow(eqn, nested=nested)
        return found

    def may_be_same(self, a: ClosedJaxpr, b: ClosedJaxpr) -> bool:
        """Whether two programs have the same operations, each as often; that is known sooner than signatures."""
        if len(a.eqns) != len(b.eqns):
            return False
        own, other = (Counter(self.shallow(e, nested=False) for e in p.eqns) for p in (a, b))
        return own == other

    def counted(self, eqn: JaxprEqn) -> JaxprEqn:
        return eqn if self._plain else self.ignored.equation(eqn)

    def order(self, jaxpr: Jaxpr) -> Sequence[JaxprEqn]:
        return canonical_order(jaxpr, self) if self.ignored.order else jaxpr.eqns

    def type_text(self, aval: Aval) -> str:
        return self.ignored.type_text(aval)

    def values(self, program: ClosedJaxpr) -> Sequence[str]:
        return () if self.ignored.consts else super().values(program)
