"""`jaxprtool.reduce`: the verb as a function of Python."""

from __future__ import annotations

import os
from typing import Any

from jaxprtool.driver import reduce as reducing
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import with_values
from jaxprtool.driver.places import with_places
from jaxprtool.driver.reduce import How, Reduction, interest_of

__all__ = ["reduce"]

_HOW = ("mode", "seconds", "jobs", "keep_good", "scrub", "step_limit")


@for_the_function(reducing.interest_of, How)
def reduce(
    program: Any, *args: Any, output: str | os.PathLike[str] | None = None, **how: Any
) -> Reduction:
    """The smallest program that still fails as a program does, as `jaxprtool reduce` finds it.

        jt.reduce(loss, params, batch, nan=True).program

    Args:
      program: a program, or a function; see `as_program`.
      args: of a program the values of the constants that it does not hold, then its arguments, arrays one by one; of a
        function its arguments, pytrees.
      output: where the small program is written; its arguments are beside it, in `OUTPUT.args.npz`.
      how: the test, one of `nan`, `inf`, `differs`, `check_error`, `slow`, `test`, `crash` (words), with its `rtol`,
        `atol`, `ulp`, `fail_regex`; and `mode`, `seconds`, `jobs`, `keep_good`, `scrub`, `step_limit`, as `driver.reduce.How` has them.

    Raises:
      UsageError: no test is given, or the program does not fail so; arguments that do not fit.
    """
    options = {k: how.pop(k) for k in _HOW if k in how}
    interest = interest_of(**how, needs_values=bool(args))
    found, values = with_values(program, args)
    name = getattr(program, "__name__", "<program>")
    out = None if output is None else os.fspath(output)
    return reducing.reduce(with_places(found, name), values, interest, How(out, **options))
