"""bench: measure how long a program takes to be traced, lowered, compiled, called for the first
time, and called again.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import math
import platform
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import Any, NamedTuple

import jaxprtool
from jaxprtool.analyses.profiling.bench import Bench, Series, Subject, compare_with, from_json
from jaxprtool.core.clock import Clock
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.progress import working
from jaxprtool.driver.run import checked_arguments, evaluated, ready
from jaxprtool.driver.running.ends import check_end
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.driver.storage.files import decode, read_bytes
from jaxprtool.interpreters.evaluation.limits import limited_steps
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Value
from jaxprtool.ir.walk import map_programs

__all__ = ["BACKENDS", "Given", "bench", "read_bench"]

BACKENDS = ("numpy", "xla")
MOST = 200  # samples of a stage that are kept
_LONGEST = 86_400.0  # seconds
_LONG = 200e-6  # seconds that a sample of a call takes at least
_SLOW = 0.1  # seconds beside which what is loaded once hardly counts
_NOTHING = ClosedJaxpr(Jaxpr([], [], []), ())


class Given(NamedTuple):
    """A program to measure.

    Attributes:
      name: its name.
      program: the program.
      args: values of the constants that it does not hold, then of its arguments.
      trace: traces it, where it comes from a function; else None.
    """

    name: str
    program: ClosedJaxpr
    args: Sequence[Value]
    trace: Callable[[], ClosedJaxpr] | None = None


def bench(
    given: Sequence[Given],
    *,
    backends: Sequence[str] = (),
    seconds: float = 5.0,
    compare: str | None = None,
    tolerance: float = 0.05,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Bench:
    """Measure the stages of programs, in turn, so that other load on the machine affects all of them alike.

    Args:
      given: the programs.
      backends: numpy, xla or both; () for both, where a program that a backend does not accept is
        left out there.
      seconds: the total time; each stage has at least one sample, and 200 are kept. Of a stage that
        takes long, the run that prepares it is the sample where there is no time for another.
      compare: the file of an earlier measurement, which `bench --json` wrote; or None.
      tolerance: how much slower than there a stage may be, 0.05 for a twentieth.
      max_bytes: programs that take more than this at one time are refused.
      step_limit: as for `driver.run`.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.run`; no backend, or not one that is
        asked for, accepts a program.
      UsageError: an invalid option; the earlier measurement is of other programs.
    """
    _check_options(given, backends, seconds, tolerance)
    old = None if compare is None else read_bench(compare)
    clock = Clock(seconds)
    subjects: list[Subject] = []
    rounds: dict[str, list[_Sampled]] = {}
    left_out: list[tuple[str, str, str]] = []
    with working("measuring"), printing_aside(), limited_steps(step_limit):
        for g in given:
            program = ready(g.program, g.args, max_bytes)
            if step_limit is not None and "numpy" not in (backends or BACKENDS):
                check_end(program, g.args, max_bytes, step_limit)
            kinds, why_not = _kinds(g, program, backends, max_bytes)
            left_out += [(g.name, backend, why) for backend, why in why_not]
            for kind, sampled in kinds:
                rounds.setdefault(kind, []).append(sampled)
            types = [str(v.aval) for v in program.jaxpr.in_binders]
            subjects.append(Subject(g.name, types, [s for _, x in kinds for s in x.series]))
        _take_turns([*rounds.values()], clock)
    found = Bench(subjects, left_out, clock.taken(), _versions())
    if old is not None:
        from jaxprtool.backends.significance import p_greater  # noqa: PLC0415 (gateway: SciPy)

        compare_with(found, old, tolerance, p_greater)
    return found


def _check_options(
    given: Sequence[Given], backends: Sequence[str], seconds: float, tolerance: float
) -> None:
    for backend in backends:
        if backend not in BACKENDS:
            message = f"there is no backend {backend!r} to measure; there are {', '.join(BACKENDS)}"
            fail(UsageError, message, "backend")
    if not given:
        fail(UsageError, "no program is given", "usage")
    if not 0 <= seconds <= _LONGEST:
        message = f"--seconds {seconds}: a number from 0 to {_LONGEST:,.0f} is needed"
        fail(UsageError, message, "option")
    if not 0 <= tolerance < math.inf:
        fail(UsageError, f"--tolerance {tolerance}: a number from 0 on is needed", "option")


def _kinds(
    given: Given, program: ClosedJaxpr, backends: Sequence[str], max_bytes: int | None
) -> tuple[_Kinds, list[tuple[str, str]]]:
    """Return the stages to sample for a program; and the backends that do not accept it, with the reason."""
    args = checked_arguments(program, given.args)
    found = [("trace", _traced(given.trace))] if given.trace is not None else []
    left_out: list[tuple[str, str]] = []
    wanted = dict.fromkeys(backends) or [*reversed(BACKENDS)]
    made: dict[str, _Kinds] = {}
    errors: dict[str, JaxprToolError] = {}
    # on NumPy first, where a limit of steps stops a loop that has no end
    for backend in sorted(wanted, key=BACKENDS.index):
        try:
            made[backend] = _MAKERS[backend](program, args, max_bytes)
        except JaxprToolError as e:
            if backends or e.diagnostics[0].code == "step-limit":
                raise
            errors[backend] = e
    if not made:
        raise next(iter(errors.values()))
    for backend in wanted:
        if backend in made:
            found += made[backend]
        else:
            left_out.append((backend, errors[backend].diagnostics[0].message))
    return found, left_out


def read_bench(path: str) -> Bench:
    """The measurement that `bench --json` wrote to a file. Raises UsageError where it is none."""
    data, name = read_bytes(path)
    try:
        document = json.loads(decode(data, name))
    except (ValueError, RecursionError) as e:
        help = "`jaxprtool bench PROG --json > before.json` writes one"
        fail(UsageError, f"{name} is no JSON: {e}", "bad-bench", help=help)
    return from_json(document, name)


def _versions() -> dict[str, str]:
    found = {"jaxprtool": jaxprtool.__version__, "python": platform.python_version()}
    for name in ("numpy", "jax", "jaxlib"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# -- what is sampled ----------------------------------------------------------------------------------


class _Sampled:
    """Stages of one program that are sampled together.

    Attributes:
      series: the stages.
      take: takes a sample of each: returns seconds, in the order of the stages.
      before: the times of the run that prepared them, where it took so long that what is done only
        once hardly counts: these are the samples where there is no time for others.
    """

    def __init__(
        self,
        series: Sequence[Series],
        take: Callable[[], Sequence[float]],
        before: Sequence[float] = (),
    ):
        self.series, self.take = [*series], take
        self.before = before if sum(before) > _SLOW else ()

    def sample(self, late: bool) -> None:
        """Take a sample of each stage; `late`: the time is up."""
        for s, time in zip(self.series, (late and self.before) or self.take(), strict=True):
            s.times.append(max(time, 1e-9))

    def thin(self) -> None:
        """Keep so many samples, spread evenly over the whole time."""
        for s in self.series:
            n = len(s.times)
            s.times = [s.times[i * n // MOST] for i in range(MOST)] if n > MOST else s.times


def _take_turns(rounds: Sequence[Sequence[_Sampled]], clock: Clock) -> None:
    """Sample each kind of stage, for all programs in turn; the kind that took least time so far comes next.

    Of kinds that take too long for what is left of the time none comes again. In every second round
    the order of programs is reversed, so that none always follows the same one.
    """
    spent, turns = [0.0 for _ in rounds], [0 for _ in rounds]

    def next_kind() -> int | None:
        new = next((i for i, n in enumerate(turns) if not n), None)
        if new is not None:
            return new
        fitting = [i for i, n in enumerate(turns) if clock.has_room(spent[i], n)]
        return min(fitting, key=spent.__getitem__, default=None)

    while (i := next_kind()) is not None:
        at = perf_counter()
        late = not clock.has_room(0.0, 0)
        for sampled in rounds[i] if sum(turns) % 2 else reversed(rounds[i]):
            sampled.sample(late)
        spent[i] += perf_counter() - at
        turns[i] += 1
    for kind in rounds:
        for sampled in kind:
            sampled.thin()


@contextmanager
def _uncollected() -> Generator[None]:
    """Switch Python's garbage collector off inside the block."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _timed(f: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a function takes, and its result."""
    with _uncollected():
        began = perf_counter_ns()
        found = f()
        return (perf_counter_ns() - began) / 1e9, found


def _steady(backend: str, call: Callable[[], Any]) -> _Sampled:
    """Sample repeated calls; so many in a sample that the clock is precise enough."""
    once = _timed(call)[0]
    once = once if once > _SLOW else min(once, _timed(call)[0])
    n = max(1, min(1000, round(_LONG / max(once, 1e-7))))

    def several() -> None:
        for _ in range(n):
            call()

    return _Sampled([Series(backend, "steady", calls=n)], lambda: [_timed(several)[0] / n], [once])


def _traced(trace: Callable[[], ClosedJaxpr]) -> _Sampled:
    def take() -> Sequence[float]:
        if "jax" in sys.modules:
            from jaxprtool.backends.jax.trace import forget_traces  # noqa: PLC0415 (gateway: JAX)

            forget_traces()
        return [_timed(trace)[0]]

    return _Sampled([Series(None, "trace")], take)


def _copied(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a copy of the program without the cached results derived from it."""
    fresh = program.replace(jaxpr=program.jaxpr.replace(eqns=[*program.eqns]))
    return map_programs(fresh, lambda c: c.replace(jaxpr=c.jaxpr.replace(eqns=[*c.eqns])))


_Kinds = list[tuple[str, _Sampled]]


def _on_numpy(program: ClosedJaxpr, args: Sequence[Value], max_bytes: int | None) -> _Kinds:
    def call(p: ClosedJaxpr) -> Any:
        return evaluated(p, args, max_bytes, None, None)

    taken, _ = _timed(partial(call, program))  # loads what all runs need

    def first() -> Sequence[float]:
        return [_timed(partial(call, _copied(program)))[0]]

    cold = _Sampled([Series("numpy", "first")], first, [taken])
    return [("numpy first", cold), ("numpy steady", _steady("numpy", partial(call, program)))]


def _on_xla(program: ClosedJaxpr, args: Sequence[Value], max_bytes: int | None) -> _Kinds:
    from jaxprtool.backends.xla import compile as xla  # noqa: PLC0415 (gateway: jaxlib)
    from jaxprtool.backends.xla.profile import finished  # noqa: PLC0415 (gateway: jaxlib)

    compile_program(_NOTHING)  # loads what all compilations need

    lowering, _ = _timed(lambda: lower_jaxpr(program))
    both, warm = _timed(lambda: compile_program(program))  # checks the program
    if max_bytes is not None:
        warm.check_size(max_bytes)
    placed = warm.place(args)
    called, _ = _timed(lambda: finished(warm(*placed)))

    def cold() -> Sequence[float]:
        copy = _copied(program)
        lower, lowered = _timed(lambda: lower_jaxpr(copy))
        compiling, made = _timed(lambda: xla.compile_stablehlo(lowered))
        on_device = made.place(args)
        return [lower, compiling, _timed(lambda: finished(made(*on_device)))[0]]

    series = [Series("xla", stage) for stage in ("lower", "compile", "first")]
    steady = _steady("xla", lambda: finished(warm(*placed)))
    sampled = _Sampled(series, cold, [lowering, max(both - lowering, 0.0), called])
    return [("xla cold", sampled), ("xla steady", steady)]


_MAKERS = {"numpy": _on_numpy, "xla": _on_xla}
