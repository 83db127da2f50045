"""Effects that happen in the order of the program, also where a compiler could change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.core.primitive import primitive_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["declare_order", "is_ordered"]

_ordered: dict[Primitive, Callable[[dict[str, Any]], bool]] = {}


def declare_order(op: Any, when: Callable[[dict[str, Any]], bool]) -> None:
    """Say that the effects of a primitive are ordered when its params say so."""
    _ordered[primitive_of(op)] = when


def is_ordered(closed: ClosedJaxpr) -> bool:
    """Whether a jaxpr, or one inside it, has ordered effects. Not recursive, so any depth is fine."""
    stack = [] if "ordered" in closed.jaxpr.cache else [closed.jaxpr]
    while stack:
        jaxpr = stack[-1]
        inner = [c.jaxpr for eqn in jaxpr.eqns for c in sub_jaxprs(eqn)]
        new = [j for j in inner if "ordered" not in j.cache]
        if new:
            stack.extend(new)
            continue
        here = any(map(_is_ordered_itself, jaxpr.eqns))
        jaxpr.cache["ordered"] = here or any(j.cache["ordered"] for j in inner)
        stack.pop()
    return closed.jaxpr.cache["ordered"]


def _is_ordered_itself(eqn: JaxprEqn) -> bool:
    when = _ordered.get(eqn.primitive)
    return when is not None and when(eqn.params)
