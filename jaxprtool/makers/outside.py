"""Makers of rules of primitives that only act outside of the program: they have types, but cannot run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import FREE
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue

__all__ = ["array_types", "out_of_reach", "refused_impl"]


def refused_impl(what: str, help: str = "") -> Callable[..., Value]:
    """Return the impl rule of a primitive that cannot run here; `what` is formatted with the params."""

    def rule(xp: Namespace, *values: Value, **params: ParamValue) -> NoReturn:
        fail(UsageError, what.format(**params), "outside", help=help)

    return rule


def out_of_reach(name: str, why: str) -> dict[str, Any]:
    """Return the columns of a primitive of this name that has types and cannot be run or
    transformed: each says why.
    """
    rules = dict.fromkeys(("jvp", "transpose", "batch", "lower"), unsupported(why))
    return {"impl": refused_impl(f"{name}: {why}"), **rules, "cost": FREE}


def array_types(name: str, avals: Sequence[Aval]) -> list[Aval]:
    """Return types of results, all of which have to be arrays."""
    for a in avals:
        if not isinstance(a, ShapedArray):
            ill_typed(f"{name}: {a} is not the type of an array", "param-value")
    return [a.strong for a in avals]
