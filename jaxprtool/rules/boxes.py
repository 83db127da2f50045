"""Rows of `new_box`, `box_set` and `box_get`: they are evaluated on Python lists, changed in place.

The type of a box, `BoxTy`, does not include the types of its contents. So a transformation cannot
tell which tangents or batches a box holds, and there are no rules for transformations.
"""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.evaluation.state_values import Box
from jaxprtool.ir.avals import OpaqueType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.call_types import check_leaves
from jaxprtool.makers.outside import array_types
from jaxprtool.rules.define import define

__all__: list[str] = []

_WHY = unsupported("its type does not say what is in a box")
_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("jvp", "transpose", "batch", "lower", "discharge"), _WHY),
    "cost": FREE,
    "effects": True,
    "varying": "rule",
}


def _check_box(name: str, box: Aval) -> None:
    if box is not Box.aval:
        ill_typed(f"{name} needs a box, and its first operand is {box}", "operand-types")


def _set_types(box: Aval, *values: Aval, treedef: ParamValue) -> list[Aval]:
    _check_box("box_set", box)
    check_leaves("box_set", "treedef", treedef, len(values), "value")
    return []


def _get_types(box: Aval, *, avals: Any) -> list[Aval]:
    _check_box("box_get", box)
    return array_types("box_get", avals)


def _new_type(*, treedef: ParamValue) -> OpaqueType:
    return Box.aval


def _put(xp: Namespace, box: Box, *values: Value, treedef: ParamValue) -> list[Value]:
    box.values = list(values)
    return []


def _look(xp: Namespace, box: Box, *, avals: Any) -> list[Value]:
    held = [get_aval(v).strong for v in box.values]
    if held != [a.strong for a in avals]:
        there, wanted = (", ".join(map(str, x)) or "nothing" for x in (held, avals))
        ill_typed(f"box_get: {there} is in the box, and {wanted} is read", "operand-types")
    return list(box.values)


define(lax.new_box, abstract_eval=_new_type, impl=lambda xp, *, treedef: Box(), **_COLUMNS)
define(lax.box_set, abstract_eval=_set_types, impl=_put, **_COLUMNS)
define(lax.box_get, abstract_eval=_get_types, impl=_look, **_COLUMNS)
