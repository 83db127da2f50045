"""`jt.opt` (`jt.optimize`), the names for writing passes of one's own, and `jt.hash`.

See `driver.api.programs`.
"""

from __future__ import annotations

from typing import Any

from jaxprtool.driver import hash as hashing
from jaxprtool.driver import opt as optimising
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import as_program
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.pipeline import DEFAULT
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.rules import Match, rewrite_rule

__all__ = ["Match", "define_pass", "hash", "hash_program", "opt", "optimize", "rewrite_rule"]


@for_the_function()
def hash(program: Any, *args: Any) -> str:
    """The canonical hash of a program, or of that of a function on arguments; see `as_program` and `driver.hash`."""
    return hashing.hash_program(as_program(program, *args))


hash_program = hash  # another name, for modules in which `hash` is the builtin


@for_the_function()
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
        jt.opt(program, "dce")

    Args:
      program, args: see `as_program`; a text after a program is `passes`.
      passes: the passes with their options, see `passes.pipeline`.
      until_fixed: run them again until nothing changes.
      verify_each: type-check the program after each.
      fast_math: let `simplify` make changes that are not exact to the bit.

    Raises:
      JaxprTypeError, UsageError, PassError: as `driver.opt`.
    """
    if len(args) == 1 and isinstance(args[0], str):  # a text: functions of arrays take none
        (passes,), args = args, ()
    found = as_program(program, *args)
    return optimising.opt(
        found, passes, until_fixed=until_fixed, verify_each=verify_each, fast_math=fast_math
    )


optimize = opt
