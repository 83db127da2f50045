"""Custom derivative rules that a text does not hold, whose functions' bodies are differentiated instead.

Where a body has no derivative, the loss of the rule is the reason, which the error says. A transposition fails long after the call with
the custom rule was inlined, so the stretches of text that its body consists of are remembered with the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.walk import all_eqns

__all__ = ["KEEPS_RULES", "differentiated_without_rule", "explain_lost_rule"]

KEEPS_RULES = "trace the function anew: `trace` keeps the rules of custom functions, which no print of JAX holds"
# What an error says of a derivative that is not there; other limits would be there with the rule too.
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
_LOST: WeakKeyDictionary[Source, dict[tuple[int, int], str]] = WeakKeyDictionary()
_NOTED = Memo[bool]("the text of a body without its custom rule is noted")


@contextmanager
def differentiated_without_rule(body: ClosedJaxpr, lost: str) -> Iterator[None]:
    """Inside the block a body is differentiated in place of a custom rule; an error of it, there or in a later transposition, says so.

    Args:
      body: of the function.
      lost: which rule is lost: `the custom vjp rule 'bwd' of f is not in the text`.
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
    """Say in an error of an equation, which stands at `span`, that a custom rule is lost, if its body was differentiated in its place."""
    span = error.diagnostics[0].span or span
    if span is not None:
        lost = _LOST.get(span.source, {}).get((span.start, span.end))
        if lost is not None:
            _explain(error, lost)


def _explain(error: JaxprToolError, lost: str) -> None:
    error.diagnostics = [_explained(d, lost) for d in error.diagnostics]
    error.args = ("\n".join(map(str, error.diagnostics)), *error.args[1:])


def _explained(d: Diagnostic, lost: str) -> Diagnostic:
    if d.code not in _NO_DERIVATIVE or d.help == KEEPS_RULES:
        return d
    message = f"{lost}, and its body has no derivative to take in its place: {d.message}"
    return replace(d, message=message, help=KEEPS_RULES)
