"""jvp: forward-mode differentiation of a program."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.core.rule_table import Unsupported
from jaxprtool.driver.arguments import Position, differentiated
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.interpreters import jvp as interpreter
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.diagnostics import Diagnostic, UnsupportedError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns

__all__ = ["jvp"]


def jvp(program: ClosedJaxpr, wrt: Sequence[Position] | None = None) -> ClosedJaxpr:
    """The jvp of a program: it computes the results and their tangents.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, that have a tangent; all inexact leaves by default.

    Returns:
      (a, tangents of a) -> (b, tangents of the inexact b).

    Raises:
      UnsupportedError: a function in it has a derivative in reverse mode only.
    """
    check_arrays(check_input(program), "jvp")
    flags, _ = differentiated(program, wrt)
    made = interpreter.jvp_jaxpr(within(program, "jvp"), flags)[0]
    _check_runs(program, made)
    return made


def _check_runs(program: ClosedJaxpr, made: ClosedJaxpr) -> None:
    """Raise UnsupportedError where the derivative has an operation without an evaluation rule, which the program has not.

    The linear map of a function with a custom vjp rule is known only by its transpose.
    """
    before = {eqn.primitive for eqn in all_eqns(program.jaxpr)}
    for eqn in all_eqns(made.jaxpr):
        rule = impl_rules.find(eqn.primitive)
        if isinstance(rule, Unsupported) and eqn.primitive not in before:
            help = "vjp and grad use its rule; linearize gives the linear map for transpose"
            d = Diagnostic(f"jvp: {rule.why}", "no-forward-derivative", help=help)
            raise UnsupportedError(d).placed_at(eqn)
