"""profile: measure where the time of a program goes, on NumPy or compiled by XLA."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns

from jaxprtool.analyses.profiling.compiled import attributed
from jaxprtool.analyses.profiling.files import profile_file
from jaxprtool.analyses.profiling.profile import KEYS, Profile
from jaxprtool.analyses.profiling.timing import Slice, Timer
from jaxprtool.core.clock import Clock
from jaxprtool.driver.compile import compile_located
from jaxprtool.driver.places import with_places
from jaxprtool.driver.progress import working
from jaxprtool.driver.run import checked_arguments, evaluated, printing_aside, ready
from jaxprtool.driver.running.ends import check_end
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["profile", "write_profile"]

MOST_RUNS = 20
_SLOW = 100_000_000  # nanoseconds beside which what is done only once hardly counts
_MOST_SLICES = 200_000


def profile(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    backend: str = "numpy",
    by: str = "equation",
    top: int = 20,
    annotate: bool = False,
    seconds: float = 1.0,
    timeline: bool = False,
    max_bytes: int | None = None,
    step_limit: int | None = None,
    name: str = "<program>",
) -> Profile:
    """Measure where the time of a program goes.

    The program runs once before anything is measured, and then again and again for `seconds`; where
    the first run alone takes most of them, it is what is measured. What it prints goes to standard
    error each time.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      backend: numpy or xla.
      by: the key of the rows that are shown: equation, source, scope or primitive.
      top: the number of rows that are shown.
      annotate: whether the text of the program is shown with times at the margin.
      seconds: how long to run: at least once, and at most 20 times.
      timeline: whether the answer contains when each instruction ran.
      max_bytes, step_limit: as for `driver.run`.
      name: the name, in places, of the text of a program that was traced.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.run`.
      UsageError: an invalid option.
    """
    _check_options(backend, by, top, seconds)
    program = ready(with_places(program, name), args, max_bytes)
    if backend == "xla":
        if step_limit is not None:
            check_end(program, args, max_bytes, step_limit)
        found = _on_xla(program, args, seconds, timeline, max_bytes)
    else:
        found = _on_numpy(program, args, seconds, timeline, max_bytes, step_limit)
    found.by, found.top, found.annotate = by, top, annotate
    return found


def write_profile(profile: Profile, path: str) -> None:
    """Write a profile to a file, in the format that its name implies.

    Raises:
      UsageError: the name implies none, the file cannot be written.
    """
    write_output(path, profile_file(profile, path))


def _check_options(backend: str, by: str, top: int, seconds: float) -> None:
    if backend not in ("numpy", "xla"):
        fail(UsageError, f"backend {backend!r}: it is numpy or xla", "backend")
    if by not in KEYS:
        fail(UsageError, f"by {by!r}: it is one of {', '.join(KEYS)}", "option")
    if top < 1:
        fail(UsageError, f"--top {top}: at least one row is shown", "option")
    if not seconds >= 0:
        fail(UsageError, f"--seconds {seconds}: a number from 0 on is needed", "option")


def _on_numpy(
    program: ClosedJaxpr,
    args: Sequence[Value],
    seconds: float,
    timeline: bool,
    max_bytes: int | None,
    step_limit: int | None,
) -> Profile:
    values = checked_arguments(program, args)
    timer = Timer()
    outs: list[Value] = []

    def run() -> int:
        nonlocal outs
        timer.begin_run()
        began = perf_counter_ns()
        outs = evaluated(program, values, max_bytes, step_limit, timer)
        return perf_counter_ns() - began

    with working("running on NumPy"), printing_aside():
        clock, slices = Clock(seconds), _MOST_SLICES if timeline else 0
        timer.reset(slices)
        times = [run()]
        if times[0] < _SLOW or clock.has_room(clock.taken(), 1):  # the first run takes longer
            timer.reset(slices)
            times = [run()]
        while len(times) < MOST_RUNS and clock.has_room(sum(times) / 1e9, len(times)):
            times.append(run())
    runs, whole = len(times), sum(times)
    found = Profile(program, "numpy", timer.root, runs, whole / runs / 1e9)
    in_equations = sum(node.own for node in timer.root.walk())
    found.others = [
        ("before and after the equations", (whole - timer.inside) / runs / 1e9),
        ("measuring", (timer.inside - in_equations + timer.root.own) / runs / 1e9),
    ]
    found.slices, found.outs = timer.slices, outs
    if timer.left_out:
        left = counted(timer.left_out, "slice")
        found.notes.append(f"{left} of what ran when had no room")
    return found


def _on_xla(
    program: ClosedJaxpr,
    args: Sequence[Value],
    seconds: float,
    timeline: bool,
    max_bytes: int | None,
) -> Profile:
    from jaxprtool.backends.xla import profile as xla  # noqa: PLC0415 (gateway: jaxlib)

    with working("compiling with XLA"):
        compiled = compile_located(program)
    if max_bytes is not None:
        compiled.check_size(max_bytes)
    with working("running with XLA"), printing_aside():
        placed = compiled.place(args)
        m = xla.profiled(compiled, placed, compiled.as_text(), seconds, MOST_RUNS)
    shares = {name: m.shares[name] for name in m.own}
    root, instructions, unknown = attributed(program, m.own, m.calls, shares, m.runs)
    found = Profile(program, "xla", root, m.runs, m.whole / m.runs / 1e9)
    idle = m.whole - sum(m.own.values())
    found.others = [
        (what, time / m.runs / 1e9)
        for what, time in (("what XLA put in", unknown), ("no instruction runs", idle))
    ]
    found.instructions, found.outs = instructions, m.outs
    if timeline:
        first = {x.name: x.shares[0][0].eqn for x in instructions if x.shares}
        found.slices = [
            Slice(first.get(p.operation), p.operation, p.thread, p.start, p.end - p.start)
            for p in m.pieces[:_MOST_SLICES]
        ]
    return found
