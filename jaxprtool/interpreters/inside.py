"""Properties that a jaxpr has where one of its equations has them."""

from __future__ import annotations

from collections.abc import Callable

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo

__all__ = ["any_equation"]


def any_equation(what: str, has: Callable[[JaxprEqn], bool]) -> Callable[[Jaxpr], bool]:
    """Return a function that says whether an equation of a jaxpr has a property; each jaxpr is examined once.

    Args:
      what: a name for the property.
      has: whether an equation has it; may call the returned function for the jaxprs inside.
    """
    known = Memo[bool](what)

    @deep
    def found(jaxpr: Jaxpr) -> bool:
        answer = known.find(jaxpr)
        return known.keep(jaxpr, any(map(has, jaxpr.eqns))) if answer is None else answer

    return found
