"""Derivatives that are refused in the body of a function whose own rule the text does not hold.

Such a body is differentiated in the place of the rule. Where that cannot be done, the rule is what is missing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from jaxprtool.interpreters.jvp import derivative_facts
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["naming_lost_rules"]

_RULES = {"jvp_jaxpr": "jvp", "bwd_jaxpr": "bwd"}  # and the params with their names
_HELP = "trace the function anew: `trace` keeps the rules of custom functions, which no print of JAX holds"


@contextmanager
def naming_lost_rules(program: ClosedJaxpr) -> Generator[None]:
    """Let the errors of a derivative of a program say where a rule is missing that its text has lost."""
    try:
        yield
    except JaxprToolError as e:
        found = [_explained(d, program) for d in e.diagnostics]
        if found == e.diagnostics:
            raise
        raise type(e)(found) from None


def _explained(diagnostic: Diagnostic, program: ClosedJaxpr) -> Diagnostic:
    if diagnostic.code != "no-rule" or diagnostic.span is None:
        return diagnostic
    for eqn in all_eqns(program.jaxpr):
        rule = _lost_rule(eqn)
        if rule and any(
            inner.span == diagnostic.span
            for body in sub_jaxprs(eqn)
            for inner in all_eqns(body.jaxpr)
        ):
            why = f"{rule} is not in the text, and its body has no derivative to take in its place"
            return replace(diagnostic, message=f"{why}: {diagnostic.message}", help=_HELP)
    return diagnostic


def _lost_rule(eqn: JaxprEqn) -> str:
    """What rule a call with a derivative of its own should have, and has not; else ""."""
    if derivative_facts[eqn.primitive] != "rule":
        return ""
    for key, name in _RULES.items():
        if eqn.params.get(key, key) is None:
            kind = "jvp" if name == "jvp" else "vjp"
            return f"the custom {kind} rule {eqn.params.get(name)!r} of {eqn.params.get('name')}"
    return ""
