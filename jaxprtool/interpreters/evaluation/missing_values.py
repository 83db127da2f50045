"""Values that a program needs and its text lacks: those of constants, and of literals that are arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail, place_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.syntax.consts import ArrayText

__all__ = ["check_literal", "present_constants"]

_NAMED = "add it after the jaxpr: `where NAME = [...]`, or give values by name: --consts FILE.npz"
_UNNAMED = "trace the function anew and keep values, with `jaxprtool trace -o` or jt.save"

_Kind = type[JaxprToolError]


def present_constants(
    closed: ClosedJaxpr, kind: _Kind = UsageError, code: str = "missing-constant"
) -> list[tuple[Var, Any]]:
    """Return the constants of a jaxpr with their values; raises `kind`, with its position, for one that has none.

    An array without elements has only one possible value, so a text need not state it.
    """
    pairs: list[tuple[Var, Any]] = []
    for v, value in zip(closed.jaxpr.const_binders, closed.consts, strict=True):
        if value is None and getattr(v.aval, "size", -1) == 0:
            value = ArrayText([], v.aval.shape, v.aval.dtype)
        if value is None:
            raise kind(replace(_without_value(v, closed.jaxpr), code=code))
        pairs.append((v, value))
    return pairs


def _without_value(v: Var, jaxpr: Jaxpr) -> Diagnostic:
    """Return the message about a constant without a value.

    It names the constant; for one without a name it says which constant of a jaxpr it is and what
    reads it.
    """
    code, end = "missing-constant", "is not in the file"
    if v.name and v.name != "_":
        message = f"the value of the constant {v.name} {end}"
        return Diagnostic(message, code, span=v.span, help=_NAMED)
    place, read = _read(v, jaxpr)
    which = f"constant {jaxpr.const_binders.index(v)} of {len(jaxpr.const_binders)} ({v!r})"
    message = f"the value of {which} of a jaxpr, {read}, {end}"
    span = v.span or (place and place.span)
    where = place_of(place) if place and not span else ""
    return Diagnostic(message, code, span=span, where=where, help=_UNNAMED)


def _read(v: Var, jaxpr: Jaxpr) -> tuple[JaxprEqn | None, str]:
    """Return the first equation that reads a variable, and the position of the operand in words.

    Where no equation reads it: None, and the result of the jaxpr that it is, in words.
    """
    for eqn in jaxpr.eqns:
        for i, x in enumerate(eqn.inputs):
            if x is v:
                return eqn, f"operand {i} of {eqn.primitive}"
    results = [i for i, x in enumerate(jaxpr.outs) if x is v]
    return None, f"its result {results[0]}" if results else "which nothing reads"


def check_literal(lit: Lit, kind: _Kind = UsageError, code: str = "missing-constant") -> None:
    """Raise `kind` for a literal whose value the text leaves out (`[...]:f32[3]`), except float0,
    which has only one value.
    """
    if lit.val is None and lit.aval.dtype.kind != "0":
        fail(
            kind,
            f"the value of the literal [...]:{lit.aval} is not in the text",
            code,
            span=lit.span,
            help="JAX prints no values of literals that are arrays; `jaxprtool trace` keeps them",
        )
