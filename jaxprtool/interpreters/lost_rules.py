"""Errors and warnings about custom derivative rules that a text does not hold.

The body of the function is differentiated in place of such a rule. Where the body has no
derivative, the error names the missing rule as the reason. A transposition may fail long after the
call with the custom rule was inlined, so the spans of the body's equations are recorded with their
source.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, JaxprToolWarning
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import LostRule
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.walk import all_eqns

__all__ = [
    "KEEPS_RULES",
    "CustomRuleWarning",
    "differentiated_without_rule",
    "explain_lost_rule",
    "failed_rules",
    "lost_rule",
]

KEEPS_RULES = "trace the function anew: `trace` keeps the rules of custom functions, which no print of JAX holds, or says why it cannot"
# Codes of errors about a missing derivative. Other limits would remain with the rule.
_NO_DERIVATIVE = {
    "no-derivative",
    "no-forward-derivative",
    "no-jvp-rule",
    "no-known-value",
    "no-rule",
    "no-transpose",
    "no-transpose-rule",
    "unknown-primitive",
}
_BEFORE = (
    "a rule that cannot be traced alone cannot be kept: take the derivative before, and trace that"
)
_COLUMNS = {"jvp": "jvp", "bwd": "vjp"}  # keyed by the params that name rules
_NOTED = Memo[bool]("the text of a body without its custom rule is noted")


class CustomRuleWarning(JaxprToolWarning):
    """The custom derivative rule of a function is not in the program, so the body of the function is differentiated."""

    code = "custom-rule"


class Lost(NamedTuple):
    """The message about a custom rule that a program lacks.

    Attributes:
      said: which rule, and why it is missing.
      help: what to do.
    """

    said: str
    help: str


_LOST: WeakKeyDictionary[Source, dict[tuple[int, int], Lost]] = WeakKeyDictionary()


def lost_rule(column: str, name: str, function: str) -> Lost:
    """Return the message about the missing custom rule of a function.

    Args:
      column: the kind of rule: `jvp` or `vjp`.
      name: the name of the rule.
      function: the name of the function.
    """
    rule = f"the custom {column} rule {str(name)!r} of {function}"
    if isinstance(name, LostRule):
        return Lost(f"{rule} could not be traced ({name.reason})", _BEFORE)
    return Lost(f"{rule} is not in the text", KEEPS_RULES)


def failed_rules(program: ClosedJaxpr) -> list[str]:
    """Return a message for each custom rule in a program that could not be traced, each once."""
    found: dict[str, None] = {}
    for eqn in all_eqns(program.jaxpr):
        for key in _COLUMNS.keys() & eqn.params.keys():
            name = eqn.params[key]
            if isinstance(name, LostRule):
                function = str(eqn.params.get("name", eqn.primitive.name))
                found[lost_rule(_COLUMNS[key], name, function).said] = None
    return [*found]


@contextmanager
def differentiated_without_rule(body: ClosedJaxpr, lost: Lost) -> Iterator[None]:
    """Differentiate a body in place of a custom rule inside the block; errors name the missing rule.

    This holds for errors inside the block and for errors of a later transposition.

    Args:
      body: the body of the function.
      lost: the message about its rule.
    """
    if _NOTED.find(body) is None:
        for eqn in all_eqns(body.jaxpr):
            span = eqn.span
            if span is not None:
                _LOST.setdefault(span.source, {})[span.start, span.end] = lost
        _NOTED.keep(body, True)
    try:
        yield
    except JaxprToolError as e:
        _explain(e, lost)
        raise


def explain_lost_rule(error: JaxprToolError, span: Span | None) -> None:
    """Add to an error of the equation at `span` that a custom rule is missing, if the equation is
    from a body in its place.
    """
    span = error.diagnostics[0].span or span
    if span is not None:
        lost = _LOST.get(span.source, {}).get((span.start, span.end))
        if lost is not None:
            _explain(error, lost)


def _explain(error: JaxprToolError, lost: Lost) -> None:
    error.diagnostics = [_explained(d, lost) for d in error.diagnostics]
    error.args = ("\n".join(map(str, error.diagnostics)), *error.args[1:])


def _explained(d: Diagnostic, lost: Lost) -> Diagnostic:
    if d.code not in _NO_DERIVATIVE or d.help in (KEEPS_RULES, _BEFORE):
        return d
    message = f"{lost.said}, and its body has no derivative to take in its place: {d.message}"
    return replace(d, message=message, help=lost.help)
