"""Run times of programs as Python functions: each takes a program, or a JAX function with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.profiling.bench import Bench
from jaxprtool.analyses.profiling.files import check_ending, is_timeline
from jaxprtool.analyses.profiling.profile import Profile
from jaxprtool.driver import bench as benches
from jaxprtool.driver import profile as profiles
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import as_program, is_function
from jaxprtool.driver.trace import argument_values, tracer

__all__ = ["bench", "profile"]


@for_the_function(benches.bench)
def bench(programs: Any, *args: Any, **how: Any) -> Bench:
    """How long a program, or a function on arguments, takes to be traced, lowered, compiled and called.

    Args:
      programs: a program or a function, or a list of them, which are measured in turn; see `jaxprtool.trace`.
      args: as of `jaxprtool.run`.
      how: keywords of `driver.bench`: `backends`, `seconds`, `compare` (the file of an earlier measurement, which `jaxprtool
        bench --json` wrote), `tolerance`, `max_bytes`, `step_limit`.

    Returns:
      An object with `subjects` (their `series` of samples), `ratios()`, and with `compare` the `changes` and those that are
      `slower`; `str` of it is what `jaxprtool bench` prints, `json()` the document.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.bench`.
    """
    several: list[Any] = [programs]
    if isinstance(programs, (list, tuple)):
        several = [*programs]
    return benches.bench([_given(p, args, i) for i, p in enumerate(several)], **how)


@for_the_function(profiles.profile)
def profile(program: Any, *args: Any, output: str | None = None, **how: Any) -> Profile:
    """Where the time of a program, or of a function on arguments, goes.

    Args:
      program, args: as of `jaxprtool.run`.
      output: a file to write for other tools: its name ends in .json (Perfetto), .speedscope.json, .pb.gz (pprof) or
        .folded; or None.
      how: keywords of `driver.profile`: `backend`, `by`, `top`, `annotate`, `seconds`, `max_bytes`, `step_limit`.

    Returns:
      An object with `rows` (place, calls, seconds, inclusive), `others`, `seconds` and `outs`, the results; `str` of it is what
      `jaxprtool profile` prints, `json()` the document.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.profile`.
    """
    if output is not None:
        check_ending(output)
        how = {"timeline": is_timeline(output), **how}
    given = _given(program, args, 0)
    found = profiles.profile(given.program, given.args, name=given.name, **how)
    if output is not None:
        profiles.write_profile(found, output)
    return found


def _given(program: Any, args: Sequence[Any], i: int) -> benches.Given:
    if not is_function(program):
        return benches.Given(f"<program {i}>" if i else "<program>", as_program(program), args)
    name = getattr(program, "__name__", "<program>")
    trace = tracer(program, args)
    found = trace()
    return benches.Given(name, found, argument_values(program, args, found), trace)
