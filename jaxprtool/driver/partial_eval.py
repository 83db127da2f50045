"""partial-eval: a program split by which of its arguments are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jaxprtool.driver.verify import check_input
from jaxprtool.driver.words.arguments import Position, argument_parts, flags_of
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.interpreters.partial_eval import partial_eval_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.inline import called
from jaxprtool.passes.own_rules import has_own_rule, name_of, warn_of_lost_rules

__all__ = ["partial_eval"]


def partial_eval(program: ClosedJaxpr, known: Sequence[Position]) -> dict[str, ClosedJaxpr]:
    """Split a program into the equations that depend only on known arguments, and the rest.

    Args:
      program: (a1, a2) -> (b1, b2).
      known: positions of leaves, or names of arguments or of parts of them: a1.

    Warns with `LostRuleWarning` of functions with a custom rule that are split, with an argument in
    each part.

    Returns:
      `known`: a1 -> (b1, residuals); `unknown`: (residuals, a2) -> b2.
    """
    check_input(program)
    flags = flags_of(program, argument_parts(program, known, "--known"))
    first, second, _, _ = partial_eval_jaxpr(program, [not k for k in flags])
    warn_of_lost_rules("partial-eval", _split(program, first, second))
    return {"known": first, "unknown": second}


def _split(program: ClosedJaxpr, *parts: ClosedJaxpr) -> list[JaxprEqn]:
    """Return the calls of functions with custom rules that are live in a program and missing in its parts."""
    if not _with_rules(program):
        return []
    calls = _with_rules(dce_closed(program))
    count = Counter(map(_kind, calls))
    count.subtract(_kind(eqn) for part in parts for eqn in _with_rules(part))
    return [eqn for eqn in calls if count[_kind(eqn)] > 0]


def _with_rules(program: ClosedJaxpr) -> list[JaxprEqn]:
    eqns = [*all_eqns(program.jaxpr)]
    ruled = {p for p in {eqn.primitive for eqn in eqns} if has_own_rule(p)}
    return [eqn for eqn in eqns if eqn.primitive in ruled and called(eqn) is not None]


def _kind(call: JaxprEqn) -> tuple[Primitive, str]:
    return call.primitive, name_of(call)
