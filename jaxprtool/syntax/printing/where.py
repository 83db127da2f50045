"""The `where` section of a jaxpr: values of its constants, and its weakly typed variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Var
from jaxprtool.syntax.consts import UnreadConstant, format_const
from jaxprtool.syntax.types import UNTYPED

__all__ = ["where_lines"]


def where_lines(
    closed: ClosedJaxpr,
    names: dict[Var, str],
    lossless: bool,
    placed: Callable[[Any], Any] | None = None,
) -> list[str]:
    """Return the entries of the section, one a line; empty when there are none.

    `placed` returns what to write for the value of a constant.
    """
    jaxpr = closed.jaxpr
    lines = [
        f"{names[v]} = {format_const(placed(value) if placed else value, v.aval)}"
        for v, value in zip(jaxpr.const_binders, closed.consts, strict=False)
        if value is not None and not (v.aval is UNTYPED and type(value) is UnreadConstant)
    ]
    if lossless:
        bound = [*jaxpr.all_binders, *(v for eqn in jaxpr.eqns for v in eqn.out_binders)]
        weak = [
            names[v] for v in bound if type(v.aval) is ShapedArray and v.aval.weak_type and names[v] != "_"
        ]  # fmt: skip
        if weak:
            lines.append(f"weak {' '.join(weak)}")
    return lines
