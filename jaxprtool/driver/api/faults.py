"""Verbs that run programs, as Python functions: `run`, and those that find faults. See `driver.api.programs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.blaming.blame import Blame
from jaxprtool.driver import blame as blaming
from jaxprtool.driver import run as running
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import is_function, with_values
from jaxprtool.driver.places import with_places
from jaxprtool.driver.running.check_nans import check_options, stopping_at_nans
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["blame", "run"]


@for_the_function(running.run)
def run(program: Any, *args: Any, check_nans: bool = False, **how: Any) -> list[Any]:
    """The results of a program, or of a function on arguments, as `jaxprtool run` computes them.

    Args:
      program: see `as_program`.
      args: of a program the values of the constants that it does not hold, then its arguments, arrays one by one; of a
        function its arguments, pytrees.
      check_nans: on NumPy, stop at the first equation that makes a NaN.
      how: keywords of `driver.run`: `jit`, `platform`, `through`, `devices`, `max_bytes`, `step_limit`.

    Returns:
      A list of arrays, which stay on the device until they are read where the program was compiled.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.run`.
      NanError: with `check_nans`, an equation gives a NaN (`driver.running.check_nans`).
    """
    found, leaves, name = _with_arguments(program, args)
    if not check_nans:
        return running.run(found, leaves, **how)
    check_options(how.get("jit", False), how.get("through"))
    placed = with_places(found, name)
    with stopping_at_nans(placed) as observer:
        return running.run(placed, leaves, observer=observer, **how)


@for_the_function(blaming.blame)
def blame(program: Any, *args: Any, **how: Any) -> Blame:
    """Find where NaN and infinities begin in a program, or in a function on arguments, and what they reach.

    Args:
      program, args: as for `run`.
      how: keywords of `driver.blame`: `nan`, `inf`, `denormal`, `above`, `jit`, `max_bytes`,
        `step_limit`.

    Raises:
      JaxprTypeError, UsageError: as `run`.
    """
    found, leaves, name = _with_arguments(program, args)
    return blaming.blame(found, leaves, name=name, **how)


def _with_arguments(program: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, Sequence[Any], str]:
    """Return the program, the values that it takes one by one, and the name of its text."""
    name = getattr(program, "__name__", "<program>") if is_function(program) else "<program>"
    return *with_values(program, args), name
