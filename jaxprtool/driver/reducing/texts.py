"""reduce --check-error of a text that is no program, since names in it are unbound or bound twice, or it is malformed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprtool.analyses.reduction.texts import TextSearch, TextSize
from jaxprtool.driver.check import check
from jaxprtool.driver.reduce import How, NotInteresting
from jaxprtool.driver.reducing.answer import Smaller
from jaxprtool.driver.reducing.interest import FAULTS, Failure, none_of_code, silent
from jaxprtool.driver.storage.writing import check_writable, write_output
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.linter.pages import find_page
from jaxprtool.syntax.cutting import without_places

__all__ = ["ReducedText", "TextRescue", "reduce_text"]

Load = Callable[[str], dict[str, ClosedJaxpr]]


@dataclass(frozen=True)
class ReducedText(Smaller):
    """A short text of which `check` says what it says of a long one; see `Smaller`.

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
        self.search: TextSearch | None = None  # what has the text

    def __call__(self) -> None:
        """Write it, where there is a file for it."""
        if self.search is not None and self.output is not None:
            write_output(self.output, self.search.current)


def reduce_text(
    text: str, load: Load, code: str, how: How, rescue: TextRescue | None = None
) -> ReducedText:
    """Make a text shorter as long as `check` reports the same error of a code, and none that it does not report before.

    Args:
      text: the text.
      load: gives the programs of a text.
      code: that of the error.
      how: where to, and how; `jobs` and `mode` make no difference.
      rescue: what writes the shortest text so far if the process is interrupted.

    Raises:
      NotInteresting: `check` reports no such error.
      UsageError: an option that is for programs, a file that cannot be written.
    """
    if how.scrub or how.keep_good is not None:
        option = "--scrub" if how.scrub else "--keep-good"
        fail(UsageError, f"{option} is for a program, and the text is none", "option")
    if how.output is not None:
        check_writable(how.output)
    begin = time.monotonic()
    known = _errors(text, load)
    failure = next((d for d in known.values() if d.code == code), None)
    if failure is None:
        find_page(code)  # a plug-in may have codes of its own, which its programs show
        message = f"nothing to reduce: {none_of_code(code, [*known.values()])}"
        fail(NotInteresting, message, "not-interesting")
    wanted = _key(failure)
    ladder: list[tuple[str, TextSize]] = []

    def test(candidate: str) -> bool:
        found = _errors(candidate, load)
        return wanted in found and found.keys() <= known.keys()

    def smaller(candidate: str, by: str) -> None:
        size = TextSize.of(candidate)
        if ladder and ladder[-1][0] == by:
            ladder.pop()
        ladder.append((by, size))
        how.show(f"{size}  ({by}, {search.tests:,} tests, {time.monotonic() - begin:.1f} s)")

    deadline = None if how.seconds is None else begin + how.seconds
    search = TextSearch(text, test, deadline, smaller)
    if rescue is not None:
        rescue.search = search
    small = search.run()
    if how.output is not None:
        write_output(how.output, small)
    return ReducedText(
        small,
        Failure(code, failure.message),
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
    """What `check` says of a text, by codes and messages; nothing where that is a fault of ours."""
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
