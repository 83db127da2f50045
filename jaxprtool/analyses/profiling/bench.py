"""Measured stages of programs, from tracing to a steady call: tables, documents, and comparison with an earlier measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

from jaxprtool.analyses.profiling.profile import time_text
from jaxprtool.analyses.profiling.samples import LEVEL, Estimate, median_of, ratio_of
from jaxprtool.analyses.table import Parts, Report, Table
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["Bench", "Change", "Series", "Subject", "changes", "compare_with", "from_json"]

_KIND = "bench"


class Series:
    """The samples of one stage of a program.

    Attributes:
      backend: xla or numpy; None for tracing, which has none.
      stage: trace, lower, compile, first or steady.
      times: the seconds of a call, one number for each sample.
      calls: how many calls a sample has, of which its time is the mean.
    """

    __slots__ = ("backend", "calls", "stage", "times")

    def __init__(
        self, backend: str | None, stage: str, times: Sequence[float] = (), calls: int = 1
    ):
        self.backend, self.stage, self.calls = backend, stage, calls
        self.times = [*times]

    @property
    def key(self) -> tuple[str | None, str]:
        """The backend and the stage."""
        return self.backend, self.stage

    @property
    def name(self) -> str:
        """For people: `xla steady`."""
        return f"{self.backend} {self.stage}" if self.backend else self.stage


class Subject(NamedTuple):
    """A program that was measured.

    Attributes:
      name: what it is called.
      arguments: the types of its arguments.
      series: its stages, in the order in which they happen.
    """

    name: str
    arguments: list[str]
    series: list[Series]


class Change(NamedTuple):
    """A stage of a program before and now.

    Attributes:
      subject: the program, as it is called now.
      old: its samples before.
      new: its samples now.
      ratio: the time now, divided by the time before.
      p_slower: the p-value of the test whether it is slower by more than the tolerance.
      p_faster: the p-value of the test whether it is faster by more than the tolerance.
      verdict: slower, faster, "no change" (none beyond the tolerance is shown) or "too few"
        (samples to tell).
    """

    subject: Subject
    old: Series
    new: Series
    ratio: Estimate
    p_slower: float
    p_faster: float
    verdict: str


class Bench(Report):
    """Measured stages of programs.

    Attributes:
      subjects: the programs.
      left_out: (program, backend, reason) of what was not measured.
      seconds: how long the measurement took.
      versions: the versions of what ran, by name.
      changes: the changes against an earlier measurement; None where there is none.
      missing: (program, stage) of what was measured then and is not now.
      tolerance: by which part a stage may be slower than before.
    """

    __slots__ = ("changes", "left_out", "missing", "seconds", "subjects", "tolerance", "versions")

    def __init__(
        self,
        subjects: Sequence[Subject],
        left_out: Sequence[tuple[str, str, str]] = (),
        seconds: float = 0.0,
        versions: Mapping[str, str] | None = None,
    ):
        self.subjects, self.left_out, self.seconds = [*subjects], [*left_out], seconds
        self.versions = dict(versions or {})
        self.changes: list[Change] | None = None
        self.missing: list[tuple[str, str]] = []
        self.tolerance = 0.0

    @property
    def slower(self) -> list[Change]:
        """The stages that are slower than an earlier measurement by more than the tolerance."""
        return [c for c in self.changes or () if c.verdict == "slower"]

    def ratios(self) -> list[tuple[Subject, Series, Estimate]]:
        """Return, for all programs but the first, how each stage compares with that of the first."""
        first = {s.key: s for s in self.subjects[0].series}
        return [
            (subject, s, ratio_of(s.times, first[s.key].times))
            for subject in self.subjects[1:]
            for s in subject.series
            if s.key in first
        ]

    def parts(self) -> Parts:
        found: list[str | Table] = []
        if self.changes is not None:
            found += self._changes()
        else:
            for subject in self.subjects:
                found += ["", *_stages(subject)] if found else _stages(subject)
            if len(self.subjects) > 1:
                found += ["", *self._ratios()]
        return [
            *found,
            *(f"{name}: {backend} is not measured: {why}" for name, backend, why in self.left_out),
        ]

    def _ratios(self) -> Parts:
        rows = [
            [s.name, f"{r.value:.3f}", _range(r, "{:.3f}".format), subject.name]
            for subject, s, r in self.ratios()
        ]
        heading = f"times as long as {self.subjects[0].name}"
        titles = ["stage<", "ratio", f"{LEVEL:.0%} interval", "program<"]
        return [Table(titles, rows, heading)]

    def _changes(self) -> Parts:
        rows = [
            [
                c.new.name,
                time_text(median_of(c.old.times).value),
                time_text(median_of(c.new.times).value),
                f"{c.ratio.value:.3f}",
                _range(c.ratio, "{:.3f}".format),
                f"{min(c.p_slower, c.p_faster):.2g}",
                c.verdict,
                c.subject.name,
            ]
            for c in self.changes or ()
        ]
        titles = ["stage<", "before", "now", "ratio", f"{LEVEL:.0%} interval", "p", "<", "program<"]
        return [Table(titles, rows), "", *self.verdict()]

    def verdict(self) -> list[str]:
        """Return lines that say how many stages are slower than before; none without an earlier measurement."""
        if self.changes is None:
            return []
        n = (
            f"{len(self.slower)} of {len(self.changes)} stages are"
            if self.slower
            else "no stage is"
        )
        few = sum(c.verdict == "too few" for c in self.changes)
        more = f"; of {few} there are too few samples to tell" if few else ""
        lost = [
            f"{name}: {stage} was measured before, and is not now" for name, stage in self.missing
        ]
        return [*lost, f"{n} slower by more than {100 * self.tolerance:.3g} %{more}"]

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "schema": 1,
            "kind": _KIND,
            "versions": self.versions,
            "seconds": self.seconds,
            "programs": [
                {
                    "program": subject.name,
                    "arguments": subject.arguments,
                    "stages": [_series_json(s) for s in subject.series],
                }
                for subject in self.subjects
            ],
            "left_out": [
                {"program": name, "backend": backend, "reason": why}
                for name, backend, why in self.left_out
            ],
        }
        if len(self.subjects) > 1:
            found["ratios"] = [
                {"program": subject.name, **_key_json(s), **_estimate_json("ratio", r)}
                for subject, s, r in self.ratios()
            ]
        if self.changes is not None:
            found["compare"] = {
                "tolerance": self.tolerance,
                "slower": bool(self.slower),
                "stages": [_change_json(c) for c in self.changes],
                "missing": [{"program": name, "stage": stage} for name, stage in self.missing],
            }
        return found


def _stages(subject: Subject) -> Parts:
    rows = []
    for s in subject.series:
        e = median_of(s.times)
        rows.append([s.name, time_text(e.value), _range(e, time_text), f"{len(s.times):,}"])
    heading = f"{subject.name}: {', '.join(subject.arguments) or 'no arguments'}"
    return [Table(["stage<", "median", f"{LEVEL:.0%} interval", "samples"], rows, heading)]


def _range(e: Estimate, text: Callable[[float], str]) -> str:
    """Return an interval for people, with its confidence where that is not the usual one; "-" where there is none."""
    if not e.confidence:
        return "-"
    told = "" if e.confidence >= LEVEL else f" ({e.confidence:.0%})"
    return f"{text(e.low)} to {text(e.high)}{told}"


def _key_json(s: Series) -> dict[str, Any]:
    return {"backend": s.backend, "stage": s.stage}


def _estimate_json(name: str, e: Estimate) -> dict[str, Any]:
    return {name: e.value, "interval": [e.low, e.high], "confidence": e.confidence}


def _series_json(s: Series) -> dict[str, Any]:
    found = _estimate_json("median", median_of(s.times))
    return {**_key_json(s), **found, "samples": len(s.times), "calls": s.calls, "times": s.times}


def _change_json(c: Change) -> dict[str, Any]:
    return {
        "program": c.subject.name,
        **_key_json(c.new),
        "before": median_of(c.old.times).value,
        "now": median_of(c.new.times).value,
        **_estimate_json("ratio", c.ratio),
        "p_slower": c.p_slower,
        "p_faster": c.p_faster,
        "verdict": c.verdict,
    }


# -- an earlier measurement ---------------------------------------------------------------------------


def from_json(document: Any, name: str) -> Bench:
    """Read the measurement from a document that `Bench.json` gave.

    Args:
      document: what was read.
      name: the file, for messages.

    Raises:
      UsageError: it is no such document, or has another schema.
    """
    if not isinstance(document, dict) or cast("Any", document).get("kind") != _KIND:
        _fail_kind(name, "it is no document that `bench --json` printed")
    document = cast("dict[str, Any]", document)
    if document.get("schema") != 1:
        _fail_kind(name, f"its schema is {document.get('schema')!r}, and this release reads 1")
    try:
        subjects = [
            Subject(
                str(p["program"]),
                [str(a) for a in p["arguments"]],
                [_series(s["backend"], s["stage"], s["times"]) for s in p["stages"]],
            )
            for p in document["programs"]
        ]
    except (KeyError, TypeError):
        _fail_kind(name, "something is missing in it")
    except (ValueError, OverflowError):
        _fail_kind(name, "its times are not positive numbers of seconds")
    return Bench(subjects)


def _series(backend: Any, stage: Any, times: Any) -> Series:
    """Read a stage from a document. Raises ValueError or OverflowError where its times are no positive numbers."""
    seconds = [float(t) if type(t) in (int, float) else math.nan for t in times]
    if not seconds or not all(0 < t < math.inf for t in seconds):
        raise ValueError
    return Series(None if backend is None else str(backend), str(stage), seconds)


def _fail_kind(name: str, why: str) -> NoReturn:
    help = "`jaxprtool bench PROG --json > before.json` writes one"
    fail(
        UsageError,
        f"{name} is not what a measurement can be compared with: {why}",
        "bad-bench",
        help=help,
    )


def compare_with(
    new: Bench,
    old: Bench,
    tolerance: float,
    p_greater: Callable[[Sequence[float], Sequence[float]], float],
) -> None:
    """Compare a measurement with an earlier one: set its `changes`, `missing` and `tolerance`.

    Raises:
      UsageError: as `changes`.
    """
    new.changes, new.tolerance = changes(new, old, tolerance, p_greater), tolerance
    for now, before in zip(new.subjects, old.subjects, strict=True):
        known = {s.key for s in now.series}
        new.missing += [(now.name, s.name) for s in before.series if s.key not in known]


def changes(
    new: Bench,
    old: Bench,
    tolerance: float,
    p_greater: Callable[[Sequence[float], Sequence[float]], float],
) -> list[Change]:
    """Compare the stages of a measurement with those of an earlier one, program by program.

    A stage is slower where the test says that its samples are larger than those before times 1 +
    tolerance, at a level of 0.05 for all stages together (Bonferroni: divided by their number); and
    faster where those before are larger than its own times that.

    Raises:
      UsageError: another number of programs, other types of arguments, or no stage in common.
    """
    n, m = len(new.subjects), len(old.subjects)
    if n != m:
        fail(UsageError, f"there are {n} programs now, and there were {m} before", "bench-mismatch")
    pairs: list[tuple[Subject, Series, Series]] = []
    for now, before in zip(new.subjects, old.subjects, strict=True):
        if now.arguments != before.arguments:
            a, b = (", ".join(s.arguments) or "nothing" for s in (now, before))
            message = f"{now.name} takes {a}, and what was measured before takes {b}"
            fail(
                UsageError, message, "bench-mismatch", help="compare runs on arguments of one type"
            )
        known = {s.key: s for s in before.series}
        pairs += [(now, known[s.key], s) for s in now.series if s.key in known]
    if not pairs:
        fail(UsageError, "no stage was measured both now and before", "bench-mismatch")
    level = (1 - LEVEL) / len(pairs)
    return [_change(*pair, tolerance, level, p_greater) for pair in pairs]


def _change(
    subject: Subject,
    old: Series,
    new: Series,
    tolerance: float,
    level: float,
    p_greater: Callable[[Sequence[float], Sequence[float]], float],
) -> Change:
    factor = 1 + tolerance
    slower = p_greater(new.times, [t * factor for t in old.times])
    faster = p_greater(old.times, [t * factor for t in new.times])
    least = 1 / math.comb(len(new.times) + len(old.times), len(new.times))
    if slower <= level:
        verdict = "slower"
    elif faster <= level:
        verdict = "faster"
    else:
        verdict = "too few" if least > level else "no change"
    return Change(subject, old, new, ratio_of(new.times, old.times), slower, faster, verdict)
