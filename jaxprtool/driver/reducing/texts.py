"""reduce for a text that is no program, since names in it are unbound or bound twice, or it is malformed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jaxprtool.analyses.reduction.texts import TextSearch, TextSize
from jaxprtool.driver.check import check
from jaxprtool.driver.reduce import How, NotInteresting
from jaxprtool.driver.reducing.answer import Smaller
from jaxprtool.driver.reducing.external_interest import External
from jaxprtool.driver.reducing.interest import FAULTS, Failure, none_of_code
from jaxprtool.driver.running.prints import silent
from jaxprtool.driver.storage.writing import check_writable, write_output
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.linter.pages import find_page
from jaxprtool.syntax.cutting import without_places

__all__ = ["CheckedText", "ReducedText", "TextRescue", "reduce_text"]

Load = Callable[[str], dict[str, ClosedJaxpr]]


@dataclass(frozen=True)
class ReducedText(Smaller):
    """A short text that fails as a long one does; see `Smaller`.

    Attributes:
      text: the short text.
      file: where it was written.
    """

    text: str
    failure: Failure
    before: TextSize
    after: TextSize
    ladder: Sequence[tuple[str, TextSize]]
    tests: int
    seconds: float
    ended: str
    file: str | None

    def lines(self) -> Sequence[str]:
        return self.summary([] if self.file is None else [self.file], "shortest")

    def json(self) -> dict[str, Any]:
        return self.document(None, False, (), self.file, None)


class TextRescue:
    """Writes the shortest text so far, for a run that is interrupted."""

    def __init__(self, output: str | None):
        self.output = output
        self.search: TextSearch | None = None  # holds the current text

    def __call__(self) -> str:
        """Write it, where there is a file for it; return a sentence that says so, or ""."""
        if self.search is None or self.output is None:
            return ""
        write_output(self.output, self.search.current)
        return f"the shortest text so far is in {self.output}"


class TextInterest(Protocol):
    """A test of texts; see `Interest`."""

    def failure(self, c: str) -> Failure | None: ...
    def __call__(self, c: str) -> bool: ...
    def why_not(self, c: str) -> str: ...


class CheckedText:
    """`check` reports the same error with a code, and none that it does not report for the whole text."""

    def __init__(self, code: str, load: Load):
        """Prepare the test for a code; `load` returns the programs of a text."""
        self.code, self.load = code, load
        self.known: dict[tuple[str, str], Diagnostic] = {}
        self.wanted = "", ""

    def failure(self, c: str) -> Failure | None:
        self.known = _errors(c, self.load)
        found = next((d for d in self.known.values() if d.code == self.code), None)
        if found is None:
            return None
        self.wanted = _key(found)
        return Failure(self.code, found.message)

    def __call__(self, c: str) -> bool:
        found = _errors(c, self.load)
        return self.wanted in found and found.keys() <= self.known.keys()

    def why_not(self, c: str) -> str:
        """Do as `Interest.why_not`. Raises UsageError for a code that does not exist."""
        find_page(self.code)  # programs may load plug-ins with codes of their own
        return none_of_code(self.code, [*_errors(c, self.load).values()])


def reduce_text(
    text: str, interest: TextInterest, how: How, rescue: TextRescue | None = None
) -> ReducedText:
    """Make a text shorter as long as it fails in the same way.

    Args:
      text: the text.
      interest: the test of the failure.
      how: where the result is written, and how; `jobs` and `mode` have no effect.
      rescue: writes the shortest text so far if the process is interrupted.

    Raises:
      NotInteresting: the text does not fail so.
      UsageError: an option that is for programs, a test that cannot be run, a file that cannot be
        written.
    """
    if how.scrub or how.keep_good is not None:
        option = "--scrub" if how.scrub else "--keep-good"
        fail(UsageError, f"{option} is for a program, and the text is none", "option")
    check_not_negative(seconds=how.seconds)
    if how.output is not None:
        check_writable(how.output)
    try:
        return _reduced(text, interest, how, rescue)
    finally:
        if isinstance(interest, External):
            interest.close()


def _reduced(text: str, interest: TextInterest, how: How, rescue: TextRescue | None) -> ReducedText:
    begin = time.monotonic()
    deadline = None if how.seconds is None else begin + how.seconds
    if isinstance(interest, External):
        interest.deadline = deadline
    failure = interest.failure(text)
    if failure is None and deadline is not None and time.monotonic() >= deadline:
        message = "the time was up before the test had ended on the whole text"
        fail(UsageError, message, "time-limit", help="raise the limit with --time")
    if failure is None:
        fail(NotInteresting, f"nothing to reduce: {interest.why_not(text)}", "not-interesting")
    ladder: list[tuple[str, TextSize]] = []

    def smaller(candidate: str, by: str) -> None:
        size = TextSize.of(candidate)
        if ladder and ladder[-1][0] == by:
            ladder.pop()
        ladder.append((by, size))
        how.show(f"{size}  ({by}, {search.tests:,} tests, {time.monotonic() - begin:.1f} s)")

    search = TextSearch(text, interest, deadline, smaller)
    if rescue is not None:
        rescue.search = search
    small = search.run()
    if how.output is not None:
        write_output(how.output, small)
    return ReducedText(
        small,
        failure,
        TextSize.of(text),
        TextSize.of(small),
        ladder,
        search.tests,
        time.monotonic() - begin,
        search.ended,
        how.output,
    )


def _key(d: Diagnostic) -> tuple[str, str]:
    return d.code, without_places(d.message)


def _errors(text: str, load: Load) -> dict[tuple[str, str], Diagnostic]:
    """Return the errors that `check` reports for a text, by codes and messages; nothing for an internal error."""
    try:
        with silent():
            check(lambda: load(text))
    except JaxprToolError as e:
        found: dict[tuple[str, str], Diagnostic] = {}
        for d in e.diagnostics:
            found.setdefault(_key(d), d)
        return found
    except FAULTS:
        return {}
    return {}
