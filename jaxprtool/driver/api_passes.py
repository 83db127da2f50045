"""`jt.opt`, what passes of a user's own are written with, and `jt.hash_program`. See `driver.api`."""

from __future__ import annotations

from typing import Any

from jaxprtool.driver import hash as hashing
from jaxprtool.driver import opt as optimising
from jaxprtool.driver.api import as_program, of_program
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.pipeline import DEFAULT
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.rules import Match, rewrite_rule

__all__ = ["Match", "define_pass", "hash_program", "opt", "rewrite_rule"]

hash_program = of_program(hashing.hash_program)


def opt(
    program: Any,
    *args: Any,
    passes: str = DEFAULT,
    until_fixed: bool = False,
    verify_each: bool = False,
    fast_math: bool = False,
) -> ClosedJaxpr:
    """A program, or that of a function on arguments, after passes, as `jaxprtool opt` makes it.

        jt.opt(loss, params, batch, passes="inline,simplify,cse,dce")

    Args:
      program, args: see `as_program`.
      passes: the passes with their options, see `passes.pipeline`.
      until_fixed: run them again until nothing changes.
      verify_each: type-check the program after each.
      fast_math: let `simplify` make changes that are not exact to the bit.

    Raises:
      JaxprTypeError, UsageError, PassError: as `driver.opt`.
    """
    found = as_program(program, *args)
    return optimising.opt(
        found, passes, until_fixed=until_fixed, verify_each=verify_each, fast_math=fast_math
    )
