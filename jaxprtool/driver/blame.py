"""blame: find where NaN, infinities and other bad values begin in a program, and what they reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.blame import Blame, as_written, blame_of
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.blaming.reach import all_made
from jaxprtool.analyses.blaming.unfolded import Unfolded, unfolded
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.running.only_compiled import only_compiled, why_not_twice
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["blame", "sought"]


def sought(
    *, nan: bool = False, inf: bool = False, denormal: bool = False, above: float | None = None
) -> Sought:
    """Return which values count as bad; NaN and infinities by default.

    Raises UsageError for a bound that is no number, or negative.
    """
    if above is not None and not above >= 0:
        fail(UsageError, f"--above {above}: a number from 0 on is needed", "bad-value")
    return Sought(nan=nan, inf=inf, denormal=denormal, above=above)


def blame(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    nan: bool = False,
    inf: bool = False,
    denormal: bool = False,
    above: float | None = None,
    jit: bool = False,
    max_bytes: int | None = None,
    step_limit: int | None = None,
    name: str = "<program>",
) -> Blame:
    """Find the equation that first makes a bad value. The program runs once, on NumPy.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      nan, inf, denormal: which values are bad; NaN and infinities where none of these is set.
      above: values whose absolute value exceeds this are bad.
      jit: where the run on NumPy shows none, compile the program with XLA, and find the shortest
        part of it that shows one.
      max_bytes, step_limit: as for `driver.run`.
      name: the name, in places, of the text of a program that was traced.

    Raises:
      JaxprTypeError, UsageError: as `driver.run`.
    """
    kinds: dict[str, Any] = {"nan": nan, "inf": inf, "denormal": denormal, "above": above}
    program = with_places(program, name)
    flow = Flow(sought(**kinds))
    flat = unfolded(program, flow.sought)
    stopped = ""
    try:
        run(flat.program, args, observer=flow, max_bytes=max_bytes, step_limit=step_limit)
    except UsageError as e:  # a NaN may keep a loop from ending, or fail a check of the program
        with numpy_namespace().errstate(all="ignore"):
            flow.flush()
        if not flow.origins:
            raise
        stopped = e.diagnostics[0].message
    found = as_written(blame_of(flow, flat.program, stopped), flat)
    if jit and not found.found:
        _look_compiled(found, program, args, flow, flat)
    return found


def _look_compiled(
    found: Blame, program: ClosedJaxpr, args: Sequence[Value], flow: Flow, flat: Unfolded
) -> None:
    """Add what the compiled program shows to an answer without a bad value."""
    if why := why_not_twice(program):
        found.notes.append(f"the program was not compiled, since {why}, and runs once only")
        return
    bad = [flat.eqn(made.eqn) for made in all_made(flow) if made.eqn]
    known = {v for eqn in bad for v in eqn.out_binders}
    found.compiled = only_compiled(program, args, flow.sought, known)
    if found.compiled is None:
        found.notes.append("the compiled program shows none either")
        return
    for i in found.compiled.results:
        found.outputs[i].reached = "reaching"
