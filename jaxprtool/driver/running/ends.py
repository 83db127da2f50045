"""Check whether a program ends: a compiled run cannot be stopped, so its steps are counted on NumPy before it runs."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.driver.progress import working
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.evaluate import eval_jaxpr
from jaxprtool.interpreters.evaluation.limits import limited_bytes, limited_steps
from jaxprtool.ir.diagnostics import MissingRuleError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.once import cut, runs_once

__all__ = ["check_end", "ends_for_sure"]


def check_end(
    program: ClosedJaxpr,
    args: Sequence[Value],
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> None:
    """Run a program that is `ready` on NumPy, unless the number of iterations of each of its loops is known.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments.
      max_bytes, step_limit: as for `driver.run`. None: the limit from outside stays.

    Raises:
      UsageError: a loop takes more steps than are allowed; the program has effects, which would
        happen once more.
      JaxprToolError: NumPy cannot run the program.
    """
    if ends_for_sure(program):
        return
    rest = cut(program).rest
    if len(rest.in_binders) != len(program.jaxpr.all_binders) or runs_once(ClosedJaxpr(rest, ())):
        message = (
            "steps are counted on NumPy, which would do once more what the program may do only once"
        )
        fail(UsageError, message, "option", help="leave --step-limit out")
    given = iter(args)
    consts = [next(given) if c is None else c for c in program.consts]
    with working("counting steps"), limited_steps(step_limit), limited_bytes(max_bytes):
        eval_jaxpr(ClosedJaxpr(rest, ()), [*consts, *given])


def ends_for_sure(program: ClosedJaxpr) -> bool:
    """Whether the number of iterations of each loop of a program is known."""
    try:
        return cost_jaxpr(program.jaxpr).is_known
    except MissingRuleError:  # a primitive defined elsewhere has no cost rule
        return False
