"""reduce: find the smallest program that still fails as a given program does."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from jaxprtool.analyses.reduction.candidate import Candidate, Size, first_candidate
from jaxprtool.analyses.reduction.search import MODES, Search
from jaxprtool.analyses.reduction.values import neutral, not_generated
from jaxprtool.core.stack import run_until
from jaxprtool.core.verification import verified_if
from jaxprtool.driver.reducing.answer import Smaller
from jaxprtool.driver.reducing.external_interest import Command, Crash, External, crash_words
from jaxprtool.driver.reducing.functions import with_functions
from jaxprtool.driver.reducing.interest import (
    Appears,
    CheckError,
    Differs,
    Failure,
    Interest,
    Slow,
)
from jaxprtool.driver.reducing.small import args_path, as_read, write_small
from jaxprtool.driver.run import checked_arguments
from jaxprtool.driver.running.machine import default_max_bytes
from jaxprtool.driver.running.prints import silent, streams_restored
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.storage.writing import check_writable
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.interpreters.evaluation.limits import limited_seconds, limited_steps
from jaxprtool.ir.diagnostics import JaxprToolWarning, UsageError, fail
from jaxprtool.ir.interface import argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = [
    "How",
    "NotInteresting",
    "Reduction",
    "Rescue",
    "files_of_results",
    "interest_of",
    "reduce",
]


_REPEATS = 5  # runs of the test on the small program at least, to notice one that fails at times,
_MOST_REPEATS, _SHARE = 60, 0.1  # and at most, where they take no more of the time
_GRACE = 2.0  # seconds that a test may take besides ten times what it took on the whole program


class NotInteresting(UsageError):
    """The program does not show the failure that should be kept."""

    exit_code = 1


@dataclass(frozen=True)
class Reduction(Smaller):
    """A small program that fails as a large one does; see `Smaller`.

    Attributes:
      program: the small program; its constants are arguments.
      args: values of its arguments; None where the failure needs none.
      flaky: whether the test gave another answer for the same program.
      kept: names of arguments that still hold values of the original, although they were to be
        scrubbed.
      files: those of the program and of the arguments, where they were written.
    """

    program: ClosedJaxpr
    args: Sequence[Value] | None
    failure: Failure
    before: Size
    after: Size
    ladder: Sequence[tuple[str, Size]]
    tests: int
    seconds: float
    ended: str = "done"
    flaky: bool = False
    kept: Sequence[str] = ()
    files: tuple[str, str] | None = field(default=None)

    def lines(self) -> Sequence[str]:
        found = self.summary([x for x in self._files() if x is not None], "smallest")
        if self.flaky:
            found.append("flaky:   the test did not always say the same of the same program")
        if self.kept:
            found.append(f"kept:    values of the original: {', '.join(self.kept)}")
        return found

    def json(self) -> dict[str, Any]:
        place = self.failure.place
        first = None if place is None else place.json()
        return self.document(first, self.flaky, self.kept, *self._files())

    def _files(self) -> tuple[str | None, str | None]:
        """Return where the program was written, and its arguments."""
        if self.files is None:
            return None, None
        return self.files[0], None if self.args is None else self.files[1]


def interest_of(
    *,
    nan: bool = False,
    inf: bool = False,
    differs: Sequence[str] | str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: float | None = None,
    check_error: str | None = None,
    slow: float | None = None,
    test: str | None = None,
    crash: Sequence[str] | str | None = None,
    fail_regex: str | None = None,
    needs_values: bool = True,
    max_bytes: int | None = None,
) -> Interest:
    """Return the one test that the options name.

    Raises:
      UsageError: there is none, or several.
    """
    names = ("nan", "inf", "differs", "check_error", "slow", "test", "crash")
    values = (nan, inf, differs, check_error, slow, test, crash)
    given = [n for n, v in zip(names, values, strict=True) if v is not None and v is not False]
    if len(given) != 1:
        spelled = [f"--{n.replace('_', '-')}" for n in given or names]
        message = f"{' and '.join(spelled)} are several tests" if given else "no test is given"
        help = (
            f"one of {', '.join(spelled)} says what has to stay true"
            if not given
            else "one of them"
        )
        fail(UsageError, message, "option", help=help)
    check_not_negative(rtol=rtol, atol=atol, ulp=ulp, slow=slow)
    if ulp is not None and (rtol is not None or atol is not None):
        message = "--ulp is a tolerance of its own, and goes without --rtol and --atol"
        fail(UsageError, message, "option", help="give --ulp, or --rtol and --atol")
    if differs is None and (rtol, atol, ulp) != (None, None, None):
        fail(UsageError, "tolerances go with --differs", "option")
    if fail_regex is not None and given[0] not in ("test", "crash"):
        fail(UsageError, "--fail-regex goes with --test and --crash", "option")
    if nan or inf:
        return Appears("nan" if nan else "inf", max_bytes)
    if differs is not None:
        words = differs.split(",") if isinstance(differs, str) else differs
        tolerance = {"rtol": rtol, "atol": atol, "ulp": ulp}
        return Differs(words, {k: x for k, x in tolerance.items() if x is not None}, max_bytes)
    if check_error is not None:
        return CheckError(check_error)
    if slow is not None:
        return Slow(slow, max_bytes)
    if test is not None:
        return Command(test, fail_regex)
    assert crash is not None
    return Crash(crash_words(crash), fail_regex, needs_values)


def files_of_results(*outputs: str | None) -> list[str]:
    """Return the files that are written for `-o` and `--keep-good`: the programs, and their arguments."""
    return [f for path in outputs if path not in (None, "-") for f in (path, args_path(path))]


def _check_outputs(output: str | None, keep_good: str | None) -> None:
    """Raise UsageError where files of a result (see `How`) cannot be written, or are those of another one."""
    known: set[str] = set()
    for file in files_of_results(output, keep_good):
        check_writable(file)
        if os.path.realpath(file) in known:
            message = f"--keep-good {keep_good}: its files are those of -o {output}"
            fail(UsageError, message, "option", help="write it to another file")
        known.add(os.path.realpath(file))


class Rescue:
    """Writes the smallest candidate so far, for a run that is interrupted.

    Program and arguments are two files: one thread at a time writes both, and none does after the run was interrupted.
    """

    def __init__(self, output: str, interest: Interest, scrub: bool = False):
        """Prepare the rescue of a run.

        Args:
          output: the file; "" or "-" for none.
          interest: the test, whose files are removed.
          scrub: whether nothing is rescued, since values and names are replaced only at the end.
        """
        self.output, self.interest, self.scrub = output, interest, scrub
        self.search: Search | None = None  # holds the current candidate
        self._lock, self._ended = threading.Lock(), False
        self._written: Candidate | None = None

    def write(self, c: Candidate) -> None:
        """Write a candidate, unless the run was interrupted."""
        with self._lock:
            if not self._ended:
                write_small(c, self.output)
                self._written = c

    def __call__(self) -> str:
        """Write the smallest candidate, unless it was written already, and remove the test's files.

        Returns:
          A sentence that says where it is; "" where it is in no file.
        """
        with self._lock:
            self._ended = True
            c = None if self.search is None else self.search.current
            asked = self.output not in ("", "-") and not self.scrub
            if c is not None and c is not self._written and asked:
                write_small(c, self.output)
        if isinstance(self.interest, External):
            self.interest.close()
        return f"the smallest program so far is in {self.output}" if c is not None and asked else ""


class _Keeping:
    """Writes the smallest candidate so far from time to time, for a process that may be killed.

    The interval is a number of seconds, or a multiple of the time that writing took.
    """

    def __init__(self, write: Callable[[Candidate], None]):
        self.write, self.next = write, time.monotonic() + _KEPT_SECONDS

    def __call__(self, c: Candidate) -> None:
        """Write it, when it is time."""
        begin = time.monotonic()
        if begin >= self.next:
            self.write(c)
            end = time.monotonic()
            self.next = end + max(_KEPT_SECONDS, _KEPT_TIMES * (end - begin))


_KEPT_SECONDS, _KEPT_TIMES = 2.0, 20


@dataclass(frozen=True)
class How:
    """How a program is made smaller.

    Attributes:
      output: where the small program is written; its arguments are beside it, in `OUTPUT.args.npz`.
      mode: how equations are removed: "bisect" in halves, quarters and so on, "linear" one by one,
        "both".
      seconds: the time limit.
      jobs: the number of candidates that are tested at once, where a test is another process; the
        result is the same.
      keep_good: where the largest candidate is written that does not fail.
      scrub: whether values and names of the original are replaced by neutral ones.
      max_bytes: the limit for the values of a run.
      step_limit: the limit for loops of a run on NumPy; a candidate that takes more steps does not
        fail.
      show: called with a line for each rung of the ladder of sizes.
      rescue: writes the smallest candidate so far if the process is interrupted.
    """

    output: str | None = None
    mode: str = "both"
    seconds: float | None = None
    jobs: int = 1
    keep_good: str | None = None
    scrub: bool = False
    max_bytes: int | None = None
    step_limit: int | None = None
    show: Callable[[str], None] = lambda line: None
    rescue: Rescue | None = None


def reduce(
    program: ClosedJaxpr, args: Sequence[Value] | None, interest: Interest, how: How
) -> Reduction:
    """Make a program smaller as long as it fails in the same way.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments; None where the
        test needs none.
      interest: the test of the failure.
      how: where results are written, and how the program is made smaller.

    Raises:
      NotInteresting: the program does not fail so.
      UsageError: a test cannot be run, the arguments do not fit, or a file cannot be written.
    """
    check_not_negative(seconds=how.seconds)
    _check_outputs(how.output, how.keep_good)
    if how.mode not in MODES:
        fail(UsageError, f"there is no mode {how.mode!r}, but {', '.join(MODES)}", "option")
    if how.scrub and how.keep_good is not None:
        message = "--keep-good goes without --scrub, which is for the result alone"
        help = "the program that does not fail would keep its names and values: run reduce twice"
        fail(UsageError, message, "option", help=help)
    try:
        with limited_steps(how.step_limit), verified_if(interest.well_typed):
            return _reduced(program, args, interest, how)
    finally:
        if isinstance(interest, External):
            interest.close()


def _reduced(
    program: ClosedJaxpr, args: Sequence[Value] | None, interest: Interest, how: How
) -> Reduction:
    begin = time.monotonic()
    end = interest.deadline = None if how.seconds is None else begin + how.seconds
    start, failure, flaky = _in_time(program, args, interest, how.seconds)
    search = _search(start, interest, how, begin)
    rescue = how.rescue or Rescue(how.output or "", interest, how.scrub)
    ladder: list[tuple[str, Size]] = []

    def rung(c: Candidate, by: str) -> None:
        if not ladder or ladder[-1][1] != c.size:
            ladder.append((by, c.size))
        if keep is not None:
            keep(c)
        how.show(f"{c.size}  ({by}, {search.tests:,} tests, {time.monotonic() - begin:.1f} s)")

    keep = None if how.output is None or how.scrub else _Keeping(rescue.write)
    search.on_smaller = rung
    rescue.search = search
    with streams_restored():
        small = search.run(() if how.keep_good else interest.shortcuts())
    kept: Sequence[str] = ()

    def test(c: Candidate, interest: Callable[[Candidate], bool] = interest) -> bool:
        with limited_seconds(search.patience), streams_restored():
            return next(iter(run_until(end, interest, c)), False)

    if how.scrub:
        small, kept = _scrubbed(small, test)
        if end is not None and time.monotonic() > end:
            warnings.warn(JaxprToolWarning(_NOT_SCRUBBED), stacklevel=2)
    if search.ended == "done":
        taken, tests = time.monotonic() - begin, (interest.confirmed, interest)
        flaky = flaky or _fails_at_times([partial(test, small, t) for t in tests], taken, end)
    files = None if how.output is None else (how.output, args_path(how.output))
    if files is not None:
        rescue.write(small)
    if how.keep_good is not None and search.rejected is not None:
        write_small(search.rejected, how.keep_good)
    elif how.keep_good is not None:
        message = f"every candidate fails in this way, and {how.keep_good} is not written"
        warnings.warn(JaxprToolWarning(message), stacklevel=2)
    return Reduction(
        with_functions(as_read(small), small.program),
        small.args,
        failure,
        start.size,
        small.size,
        _rungs(ladder),
        search.tests,
        time.monotonic() - begin,
        search.ended,
        flaky,
        kept,
        files,
    )


_NOT_SCRUBBED = (
    "the time was up before all names and values were tried to be replaced: the result may hold "
    "some of the original"
)
_FOR_SCRUBBING = 0.2  # of the time


def _fails_at_times(tests: Sequence[Callable[[], bool]], taken: float, end: float | None) -> bool:
    """Whether a candidate that passed the test fails one of several runs of it.

    A test that fails seldom needs many, and there are as many as take a share of the time that
    everything has taken.

    Args:
      tests: those that run once, and the one that runs again and again.
      taken: the seconds that everything has taken.
      end: when the time is up; None for no limit.
    """
    enough = time.monotonic() + _SHARE * taken
    for n in range(_MOST_REPEATS):
        if n >= _REPEATS and time.monotonic() > enough:
            break
        passed = tests[min(n, len(tests) - 1)]()
        if end is not None and time.monotonic() > end:
            return False  # the test may have been stopped
        if not passed:
            return True
    return False


def _in_time(
    program: ClosedJaxpr, args: Sequence[Value] | None, interest: Interest, seconds: float | None
) -> tuple[Candidate, Failure, bool]:
    """Return `_established`; raise UsageError where that takes longer than so many seconds."""
    with limited_seconds(seconds), streams_restored():
        found = run_until(interest.deadline, _established, program, args, interest)
    if found:
        return found[0]
    _not_in_time()


def _not_in_time() -> NoReturn:
    message = "the time was up before the test had ended on the whole program"
    fail(UsageError, message, "time-limit", help="raise the limit with --time")


def _search(start: Candidate, interest: Interest, how: How, begin: float) -> Search:
    """Return the search, which began with the first tests at `begin`: the time that these took
    limits that of others.
    """
    seconds = how.seconds
    if seconds is not None and how.scrub:
        seconds *= 1 - _FOR_SCRUBBING
    return Search(
        start,
        interest,
        mode=how.mode,
        deadline=None if seconds is None else begin + seconds,
        jobs=how.jobs if interest.external else 1,
        max_bytes=(how.max_bytes or default_max_bytes()) // 4,
        well_typed=interest.well_typed,
        stop=interest.stop,
        within=silent,
        patience=_GRACE + 10 * (time.monotonic() - begin),
    )


def _established(
    program: ClosedJaxpr, args: Sequence[Value] | None, interest: Interest
) -> tuple[Candidate, Failure, bool]:
    """Return the first candidate, its failure, and whether it fails only sometimes."""
    if interest.well_typed:
        check_arrays(check_input(program), "reduce", sized=interest.needs_values)
    given = None
    if interest.needs_values and args is not None:
        given = checked_arguments(program, args)
    start = first_candidate(load_constants(program), given)
    interest.labels = _labels(program)
    failure = interest.failure(start)
    again = interest(start) if failure is not None else False
    if interest.is_over():
        if failure is None:
            _not_in_time()
        return start, failure, False  # the second test may have been stopped
    if failure is None:
        fail(NotInteresting, f"nothing to reduce: {interest.why_not(start)}", "not-interesting")
    return start, failure, not again


def _labels(program: ClosedJaxpr) -> list[str]:
    """Return the names of the arguments of the first candidate: the constants of the program, then its arguments."""
    jaxpr = program.jaxpr
    consts = [f"constant {i} ({v.name})" for i, v in enumerate(jaxpr.const_binders)]
    return [*consts, *argument_labels([v.name for v in jaxpr.in_binders], program.interface)]


def _rungs(ladder: Sequence[tuple[str, Size]]) -> list[tuple[str, Size]]:
    """Return the ladder with only the last rung of each family of removals."""
    last = [i for i, (by, _) in enumerate(ladder) if i + 1 == len(ladder) or ladder[i + 1][0] != by]
    return [ladder[i] for i in last]


def _scrubbed(c: Candidate, test: Callable[[Candidate], bool]) -> tuple[Candidate, list[str]]:
    """Return the candidate with neutral names where it stays interesting, and the arguments that
    hold values of the original.
    """
    c = neutral(c, test)
    return c, not_generated(c, as_read(c).jaxpr)
