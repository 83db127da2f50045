"""fuzz: run random programs through columns, whose two sides have to agree."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.core.clock import Clock
from jaxprtool.driver import reduce as reducing
from jaxprtool.driver.fuzzing.columns import (
    Deviation,
    Refused,
    Tried,
    column_named,
    deviation,
    tried,
)
from jaxprtool.driver.fuzzing.generate import (
    Generated,
    Recipe,
    generated,
    made_folder,
    names_of,
    write_generated,
    write_pair,
)
from jaxprtool.driver.reducing.interest import Failure, Interest, names_in, normalised
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.generation.seeds import primitives_in
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = [
    "FOLDER",
    "PATIENCE",
    "SECONDS",
    "Finding",
    "Fuzzer",
    "Fuzzing",
    "fuzz",
    "fuzzer",
    "refuse_without_check",
]

FOLDER = "fuzz-found"
SECONDS = 60.0  # default time for drawing programs
PATIENCE = 20.0  # seconds for the reduction of one finding


def refuse_without_check(*, seconds: float | None, no_reduce: bool, as_json: bool) -> None:
    """Raise UsageError for options that are only for checks."""
    given = ("--seconds" if seconds is not None else "") or ("--no-reduce" if no_reduce else "")
    if given:
        fail(UsageError, f"{given} goes with --check", "option", help="--check numpy,xla")
    if as_json:
        fail(UsageError, "--json goes with -o, or with --check", "option", help="-o programs")


class _Deviates(Interest):
    """The test that a program fails in a column as before: its results differ, or the same exception is raised."""

    def __init__(self, found: Deviation):
        self.found = found

    def failure(self, c: Candidate) -> Failure | None:
        found = self._of(c)
        return None if found is None else Failure(found.kind, found.message)

    def __call__(self, c: Candidate) -> bool:
        return self._of(c) is not None

    def _of(self, c: Candidate) -> Deviation | None:
        try:
            found = deviation(self.found.column, c.program, c.args or ())
        except Refused:
            return None
        if found is None or (found.kind, found.of) != (self.found.kind, self.found.of):
            return None
        if found.kind == "crash":
            before, after = (normalised(d.message, names_in(c.jaxpr)) for d in (self.found, found))
            return found if before == after else None
        return found


@dataclass(frozen=True)
class Finding:
    """A program that fails in a column.

    Attributes:
      seed: the seed of the random program.
      found: how it fails.
      program, args: the reduced program.
      original: the random program.
      files: those of the reduced program, its arguments, and the random program with its arguments.
    """

    seed: int
    found: Deviation
    program: ClosedJaxpr
    args: Sequence[Value]
    original: Generated
    files: Sequence[str] = ()

    def explains(self, case: Generated, found: Deviation) -> bool:
        """Whether another program most likely fails for the same reason: it contains the primitives of this one."""
        same = (found.column, found.kind, found.of) == (
            self.found.column,
            self.found.kind,
            self.found.of,
        )
        return same and primitives_in(self.program) <= primitives_in(case.program)

    def json(self) -> dict[str, Any]:
        """The finding as plain values."""
        files = dict(zip(("file", "args", "original", "original_args"), self.files, strict=False))
        return {
            "seed": self.seed,
            "column": self.found.column,
            "kind": self.found.kind,
            "message": self.found.message,
            "primitives": sorted(primitives_in(self.program)),
            **files,
        }

    def lines(self) -> Sequence[str]:
        """The finding for people."""
        first = f"{self.found.column} {self.found.kind}: {self.found.message}"
        of = ", ".join(sorted(primitives_in(self.program)))
        return [first, f"  of {of or 'no equation'}, from --seed {self.seed}: {self.files[0]}"]


@dataclass(frozen=True)
class Fuzzing(Answer):
    """The results of running random programs through columns.

    Attributes:
      programs: the number of programs drawn.
      compared: by column, for how many of them both sides accepted at least one equation.
      refused: by column, for how many one side accepted none, and said so.
      drawn: the number of equations of the programs.
      equations: by column the number of these that were compared.
      findings: the programs that fail, one of each kind.
      alike: the number of further programs that fail like one of them.
      seconds: the time it took.
    """

    programs: int
    compared: dict[str, int]
    refused: dict[str, int]
    drawn: int
    equations: dict[str, int]
    findings: Sequence[Finding]
    alike: int
    seconds: float

    def lines(self) -> Sequence[str]:
        found = [line for f in self.findings for line in f.lines()]
        if self.alike:
            found.append(f"{self.alike} more that fail in the same way")
        shares = ", ".join(f"{name} {self._share(name):.0%}" for name in self.compared)
        n = len(self.findings)
        end = "nothing differs" if not n else f"{counted(n, 'finding')}"
        drawn = f"{counted(self.programs, 'program')} in {self.seconds:.0f} s"
        return [*found, f"{end}: {drawn} (compared of {self.drawn:,} equations: {shares})"]

    def _share(self, column: str) -> float:
        return self.equations[column] / max(1, self.drawn)

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "found": len(self.findings),
            "programs": self.programs,
            "compared": self.compared,
            "refused": self.refused,
            "drawn": self.drawn,
            "equations": self.equations,
            "findings": [f.json() for f in self.findings],
            "alike": self.alike,
            "seconds": round(self.seconds, 3),
        }


def _nothing(_line: str) -> None:
    pass


@dataclass
class Fuzzer:
    """A run through the columns.

    Attributes:
      columns: their names.
      recipe: which programs are drawn.
      folder: where findings are written.
      patience: seconds that the reduction of one finding may take.
      show: called with a line for each finding.
      deadline: when to stop, on the monotonic clock.
    """

    columns: Sequence[str]
    recipe: Recipe = field(default_factory=Recipe)
    folder: str = FOLDER
    patience: float = PATIENCE
    show: Callable[[str], None] = _nothing
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self.columns = [column_named(name) for name in self.columns]
        if not self.columns:
            fail(UsageError, "--check needs a column", "option", help="--check numpy,xla")
        self.compared = dict.fromkeys(self.columns, 0)
        self.refused = dict.fromkeys(self.columns, 0)
        self.equations = dict.fromkeys(self.columns, 0)
        self.drawn = 0
        self.findings: list[Finding] = []
        self.alike = 0

    def try_one(self, case: Generated) -> None:
        """Run a program through all columns, as far as each accepts it, and keep its failures.

        No column is begun after the deadline.
        """
        self.drawn += len(case.program.eqns)
        for column in self.columns:
            if time.monotonic() >= self.deadline:
                return
            try:
                done = tried(column, case.program, case.args)
            except Refused:
                self.refused[column] += 1
                continue
            self.compared[column] += 1
            self.equations[column] += len(done.program.eqns)
            if done.found is not None:
                self._keep(case, done, done.found)

    def _keep(self, case: Generated, done: Tried, found: Deviation) -> None:
        if any(f.explains(case, found) for f in self.findings):
            self.alike += 1
            return
        finding = self._reduced(case, done, found)
        folder = made_folder(self.folder)
        name = f"{case.name}-{found.column}"
        files = [
            *write_pair(finding.program, finding.args, folder, name),
            *write_generated(case, folder),
        ]
        finding = Finding(case.seed, finding.found, finding.program, finding.args, case, files)
        self.findings.append(finding)
        for line in finding.lines():
            self.show(line)

    def _reduced(self, case: Generated, done: Tried, found: Deviation) -> Finding:
        """Return the finding with a smaller program, where it fails each time."""
        patience = min(self.patience, self.deadline - time.monotonic())
        if patience <= 0:
            return Finding(case.seed, found, done.program, done.args, case)
        how = reducing.How(seconds=patience)
        try:
            small = reducing.reduce(done.program, done.args, _Deviates(found), how)
        except JaxprToolError:
            return Finding(case.seed, found, done.program, done.args, case)
        args = small.args or ()
        again = deviation(found.column, small.program, args) or found
        return Finding(case.seed, again, small.program, args, case)


def fuzzer(
    columns: str,
    recipe: Recipe,
    folder: str | None,
    *,
    show: Callable[[str], None],
    no_reduce: bool,
    seconds: float | None,
) -> Fuzzer:
    """Return a fuzzer for the options of the verb."""
    del seconds
    patience = 0.0 if no_reduce else PATIENCE
    return Fuzzer(names_of(columns), recipe, folder or FOLDER, patience, show)


def fuzz(
    fuzzer: Fuzzer,
    seed: int,
    count: int | None = None,
    seconds: float | None = None,
) -> Fuzzing:
    """Run random programs through columns; program i has the seed `seed + i`.

    Args:
      fuzzer: what is drawn and compared, and where findings are written.
      seed: the seed of the first program.
      count: the number of programs.
      seconds: the time that it may take, with reductions. A minute where there is no count either.
    """
    check_not_negative(seconds=seconds)
    if seconds is None and count is None:
        seconds = SECONDS
    clock, done = Clock(seconds), 0
    fuzzer.deadline = clock.end
    while (count is None or done < count) and clock.has_room(clock.taken(), done):
        fuzzer.try_one(generated(seed + done, fuzzer.recipe))
        done += 1
    counts = fuzzer.compared, fuzzer.refused, fuzzer.drawn, fuzzer.equations
    return Fuzzing(done, *counts, fuzzer.findings, fuzzer.alike, clock.taken())
