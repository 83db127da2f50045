"""Find operations without a derivative in forward mode: linear maps of which only the transpose is known."""

from __future__ import annotations

from jaxprtool.core.rule_table import Unsupported
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.transpose import transpose_rules
from jaxprtool.ir.diagnostics import Diagnostic, UnsupportedError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["check_forward"]


def check_forward(program: ClosedJaxpr, made: ClosedJaxpr, prefix: str = "") -> None:
    """Raise UnsupportedError where the jvp of a program contains an operation that cannot be
    evaluated, and the program does not.

    Args:
      program: (a) -> (b).
      made: its jvp.
      prefix: the beginning of the message.
    """
    before = {eqn.primitive for eqn in all_eqns(program.jaxpr)}
    for eqn in all_eqns(made.jaxpr):
        rule = impl_rules.find(eqn.primitive)
        if isinstance(rule, Unsupported) and eqn.primitive not in before:
            message, help = f"{prefix}{rule.why}", rule.help
            outer = _without_transpose(made.jaxpr, eqn)
            if outer is not None:
                name, why = outer
                message += f", and the {name} around it none in reverse mode"
                help = f"give it a jvp rule in place of the vjp rule; {why}"
            d = Diagnostic(message, "no-forward-derivative", help=help)
            raise UnsupportedError(d).placed_at(eqn)


def _without_transpose(jaxpr: Jaxpr, eqn: JaxprEqn) -> tuple[str, str] | None:
    """Return name and reason of the innermost operation around an equation that has no transpose;
    None where there is none.
    """
    found = None
    for outer in all_eqns(jaxpr):
        rule = transpose_rules.find(outer.primitive) if sub_jaxprs(outer) else None
        if isinstance(rule, Unsupported) and any(
            e is eqn for closed in sub_jaxprs(outer) for e in all_eqns(closed.jaxpr)
        ):
            found = outer.primitive.name, rule.why
    return found
