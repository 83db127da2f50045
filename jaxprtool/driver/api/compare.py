"""`jt.compare`: the verb as a Python function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.comparing.comparison import EXACT, Comparison, Tolerance
from jaxprtool.driver import compare as comparing
from jaxprtool.driver.api.keywords import for_the_function, is_function, refuse_texts
from jaxprtool.driver.api.programs import with_values, with_values_of_two
from jaxprtool.driver.places import with_places
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["compare"]


@for_the_function(programs=2)
def compare(
    a: Any,
    b: Any = None,
    *args: Any,
    backends: Sequence[str] | str = (),
    rtol: float | None = None,
    atol: float | None = None,
    ulp: float | None = None,
    first: bool = False,
    arbiter: str | None = None,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Comparison:
    """Run two programs, or one on two backends, on the same arguments, and compare the results.

        jt.compare(before, after, x, first=True).first.a          the place of the first difference
        jt.compare(loss, None, params, batch, backends="numpy,xla")

    Args:
      a, b: programs or functions, see `as_program`; None for b: a itself, on two backends.
      args: arrays, one by one, of constants that a does not hold and of its arguments; for a function its
        arguments, pytrees.
      backends: one for both, or one for each: `numpy`, `xla`, `jax`, `f64`; a list, or names with commas between.
      rtol, atol: floats agree up to `atol + rtol * max(|a|, |b|)`.
      ulp: floats agree up to so many steps from float to float.
      first: whether to find the first equation whose results differ although its operands agree.
      arbiter: `f64`: say which side is further from the results in double precision.
      max_bytes, step_limit: as `driver.run`.

    Raises:
      UsageError, JaxprTypeError, UnsupportedError: as `driver.compare`.
    """
    if ulp is not None and (rtol is not None or atol is not None):
        message = "ulp is a tolerance of its own, and goes without rtol and atol"
        fail(UsageError, message, "option")
    given = (rtol, atol, ulp) != (None, None, None)
    if b is None:
        first_program, leaves = with_values(a, args)
        second_program = None
    else:
        for f in filter(is_function, (a, b)):
            refuse_texts(f, args)
        first_program, second_program, leaves = with_values_of_two(a, b, args)
    return comparing.compare(
        _placed(first_program, a),
        None if second_program is None else _placed(second_program, b),
        list(leaves),
        backends=backends.split(",") if isinstance(backends, str) else backends,
        tolerance=Tolerance(rtol, atol, ulp) if given else EXACT,
        first=first,
        arbiter=arbiter,
        names=("A", "A" if b is None else "B"),
        max_bytes=max_bytes,
        step_limit=step_limit,
    )


def _placed(program: ClosedJaxpr, given: Any) -> ClosedJaxpr:
    return with_places(program, getattr(given, "__name__", "<program>"))
