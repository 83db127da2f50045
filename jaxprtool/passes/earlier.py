"""Programs with the operations of an earlier release of JAX, which computed the same with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.earlier import earlier_rules
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic, JaxprTypeError, counted
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns
from jaxprtool.makers.decomposed import function_of
from jaxprtool.passes.rewrite import rewrite
from jaxprtool.syntax.releases.dialects import Dialect, unsayable

__all__ = ["in_earlier_words"]

_MOST_ROUNDS = 8  # what takes the place of an operation may have to be replaced again


@deep
def in_earlier_words(
    program: ClosedJaxpr, dialect: Dialect
) -> tuple[ClosedJaxpr, list[Diagnostic]]:
    """Return a program with other equations in the place of those that a release cannot express.

    The column `earlier` of the rows says what a release without an operation computed the same
    with, to within rounding; an operation that is computed by others is written as these.

    Args:
      program: the program.
      dialect: that of the release.

    Returns:
      The program, and notes on the equations that were replaced: one for all that were for the same
        reason, at the first of them. Equations without a counterpart stay, as do all of an ill-typed
        program.
    """
    notes: dict[str, list[Diagnostic]] = {}
    for _ in range(_MOST_ROUNDS):
        if not any(unsayable(eqn, dialect) for eqn in all_eqns(program.jaxpr)):
            break
        rule = _Rule(dialect, notes)
        try:
            new = rewrite(program, rule)
        except JaxprTypeError:
            break
        if new is program:
            break
        program = new
    return program, [_together(found) for found in notes.values()]


def _together(notes: Sequence[Diagnostic]) -> Diagnostic:
    """Return one note for several of the same message."""
    first, *others = notes
    if not others:
        return first
    return replace(first, message=f"{first.message}; and {counted(len(others), 'more equation')}")


class _Rule:
    """The rule of one rewriting, which notes what it replaces."""

    def __init__(self, dialect: Dialect, notes: dict[str, list[Diagnostic]]):
        self.dialect, self.notes = dialect, notes

    def __call__(self, eqn: JaxprEqn) -> Callable[..., Any] | None:
        why = unsayable(eqn, self.dialect)
        made = _counterpart(eqn) if why else None
        if made is not None:
            piece = dce_closed(stage(_flat(made), [x.aval for x in eqn.inputs]))
            names = [*dict.fromkeys(e.primitive.name for e in piece.eqns)]
            what = f"written with {', '.join(names)}" if names else "left out"
            message = f"for {self.dialect.name}: {why}; {what}"
            note = Diagnostic(message, "earlier-words", eqn.span, severity="note")
            self.notes.setdefault(message, []).append(note)
        return made


def _counterpart(eqn: JaxprEqn) -> Callable[..., Any] | None:
    """Return the function of the operands of an equation that is written with other operations, or None."""
    avals = [x.aval for x in eqn.inputs]
    rule = earlier_rules.find(eqn.primitive)
    if rule is not None:
        return rule(*avals, **eqn.params)
    f = function_of(impl_rules.find(eqn.primitive))
    results = [v.aval for v in eqn.out_binders]
    if f is None or not all(_is_of_numbers(a) for a in (*avals, *results)):
        return None  # keys are words to such a function
    return lambda *xs: f(avals, *xs, **eqn.params)


def _is_of_numbers(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.kind != "k"


def _flat(f: Callable[..., Any]) -> Callable[..., list[Any]]:
    def flat(*xs: Any) -> list[Any]:
        out = f(*xs)
        return [*out] if isinstance(out, (list, tuple)) else [out]

    return flat
