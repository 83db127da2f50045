"""opt: passes over a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.verify import check_input
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import count_eqns
from jaxprtool.passes.pipeline import DEFAULT, Stage, Step, pipeline, run_pipeline
from jaxprtool.passes.registry import BUILT_IN, all_passes
from jaxprtool.passes.specialise import has_symbolic_sizes

__all__ = ["PassError", "described", "listed", "opt"]


class PassError(JaxprToolError):
    """A pass made a program that is ill-typed, or of another type than it promises."""

    exit_code = 1


def opt(
    program: ClosedJaxpr,
    passes: str = DEFAULT,
    *,
    until_fixed: bool = False,
    verify_each: bool = False,
    fast_math: bool = False,
    after: Callable[[Step], None] = lambda step: None,
) -> ClosedJaxpr:
    """Return a program after passes; it computes the same, as far as the laws of the passes state.

    Args:
      program: a well-typed program.
      passes: the passes with their options, see `passes.pipeline`.
      until_fixed: run them again until nothing changes.
      verify_each: check after each pass that the program is well-typed, and of the type that the
        pass promises.
      fast_math: give this option to the passes that have it: simplify.
      after: called with each pass that has run, and the programs before and after it.

    Raises:
      JaxprTypeError: the program is ill-typed.
      UsageError: there is no such pass or option, or fast_math is given and no pass has it.
      PassError: with verify_each a pass went wrong; without it, a user's own pass made an ill-typed
        program.
    """
    stages = pipeline(passes)
    if fast_math:
        stages = _with_fast_math(stages)
    first = [*takewhile(lambda stage: stage.of.fixes_types, stages)]
    if first and has_symbolic_sizes(program):  # types are known once the sizes are
        program = run_pipeline(program, first, after=after)
        stages = stages[len(first) :]
    check_input(program)

    def told(step: Step) -> None:
        if verify_each or step.stage.of.name not in BUILT_IN:
            _verify(step, promised=verify_each)
        after(step)

    return run_pipeline(load_constants(program), stages, until_fixed=until_fixed, after=told)


def _with_fast_math(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages with fast_math, where their options do not mention it."""
    takes = ["fast_math" in s.of.options for s in stages]
    if not any(takes):
        fail(UsageError, "no pass of --passes takes --fast-math", "bad-usage", help="simplify does")
    return [
        s._replace(options={"fast_math": True, **s.options}) if takes_it else s
        for s, takes_it in zip(stages, takes, strict=True)
    ]


def _verify(step: Step, promised: bool) -> None:
    """Raise PassError where the program after a pass is ill-typed, or, if asked, of another type than promised."""
    name = step.stage.of.name
    try:
        typecheck_jaxpr(step.after, allow_unknown=True)
    except JaxprToolError as e:
        fail(PassError, f"after {name} the program is ill-typed: {e}", "pass")
    kept = (step.before.in_avals, step.before.out_avals)
    if (
        promised
        and "types" in step.stage.of.laws
        and kept != (step.after.in_avals, step.after.out_avals)
    ):
        fail(PassError, f"after {name} the program has another type", "pass")


def described(step: Step) -> str:
    """Describe what a pass did, in a line: `cse: 41 equations, 7 fewer (0.3 ms)`."""
    before, after = count_eqns(step.before.jaxpr), count_eqns(step.after.jaxpr)
    change = before - after
    what = "unchanged" if step.after is step.before else "changed"
    if change:
        what = f"{abs(change):,} {'fewer' if change > 0 else 'more'}"
    return f"{step.stage}: {after:,} equations, {what} ({step.seconds * 1e3:.1f} ms)"


def listed() -> Iterator[str]:
    """The passes, with their options and the laws that they keep."""
    for found in all_passes():
        options = " ".join(f"{k}={v}" for k, v in found.options.items())
        yield f"{found.name} {options}".rstrip()
        doc = inspect.getdoc(found.run) or ""
        yield from (f"  {line}".rstrip() for line in doc.splitlines())
        yield f"  keeps: {', '.join(law for law in sorted(found.laws)) or 'nothing'}"
        yield ""
