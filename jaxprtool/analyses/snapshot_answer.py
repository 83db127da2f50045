"""The answer of `snapshot`: what has changed in each recorded program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxprtool.analyses.table import Parts, Report, Table, size_text
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError
from jaxprtool.ir.spans import Span

__all__ = ["Failure", "Recorded", "Snapshots"]

Figures = Mapping[str, int | None]
_SIZES = ("bytes", "peak", "residuals", "sent")


class Recorded(NamedTuple):
    """A recorded program.

    Attributes:
      name: `loss`, or `loss.grad` for what a verb makes of it.
      file: its file.
      kind: how it has changed: unchanged, printer only, equivalent, constants within tolerance,
        different, missing (it has no file); or what was done: recorded, updated.
      note: more about that, or "".
      before: figures of the recorded program, where it has changed.
      after: figures of the present program, where it has changed.
      lines: the difference, as `diff` shows it.
      span: the first place in the file where it differs, or None.
    """

    name: str
    file: str
    kind: str
    note: str = ""
    before: Figures = MappingProxyType({})
    after: Figures = MappingProxyType({})
    lines: Sequence[str] = ()
    span: Span | None = None

    @property
    def figures(self) -> dict[str, tuple[int | None, int | None]]:
        """The figures that differ, each before and after."""
        pairs = {k: (self.before.get(k), v) for k, v in self.after.items()}
        return {k: pair for k, pair in pairs.items() if pair[0] != pair[1]}

    def describe(self) -> str:
        """Return in one line how it has changed, with the figures that differ."""
        said = [self.note] if self.note else []
        return "; ".join([*said, *(_change(k, *pair) for k, pair in self.figures.items())])


def _change(key: str, before: int | None, after: int | None) -> str:
    texts = ["unknown" if x is None else _figure(key, x) for x in (before, after)]
    return f"{key} {texts[0]} -> {texts[1]}"


def _figure(key: str, x: int) -> str:
    return size_text(x) if key in _SIZES else f"{x:,}"


class Failure(NamedTuple):
    """A program that could not be made, because its function cannot be traced, say.

    Attributes:
      name: the name of the program.
      error: why.
      settings: the file with its settings, where the error may be about those; else "".
    """

    name: str
    error: JaxprToolError
    settings: str = ""

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Those of the error; they name the program, and the keys of the settings instead of options."""
        return [self._told(d) for d in self.error.diagnostics]

    def _told(self, d: Diagnostic) -> Diagnostic:
        if not self.settings:
            return replace(d, message=f"{self.name}: {d.message}")
        where = d.where or ("" if d.span is not None else self.settings)
        message = f"{self.name}: {_with_keys(d.message)}"
        return replace(d, message=message, help=_with_keys(d.help), where=where)


# The keys of settings for those options of verbs that have another name.
_KEYS = {"--shape": "shapes", "--in-axes": "in_axes", "--axis-size": "axis_size"}
_OPTION = re.compile(r"--(?:shape|in-axes|axis-size|wrt|like|static|frontend|passes|x64)\b")


def _with_keys(text: str) -> str:
    """Return a message with the keys of the settings in the place of options."""
    return _OPTION.sub(lambda m: _KEYS.get(m[0], m[0][2:]), text)


class Snapshots(Report):
    """How recorded programs have changed, or what was done about them.

    Attributes:
      rows: the programs.
      extra: files in the folder that belong to no program.
      failures: the programs that could not be made; their files are as they were.
      removed: whether the extra files were removed.
    """

    __slots__ = ("extra", "failures", "removed", "rows")

    def __init__(
        self,
        rows: Sequence[Recorded],
        extra: Sequence[str],
        failures: Sequence[Failure] = (),
        *,
        removed: bool = False,
    ):
        self.rows, self.extra, self.failures = [*rows], [*extra], [*failures]
        self.removed = removed

    @property
    def changed(self) -> list[Recorded]:
        """The programs that differ from their files by more than the print."""
        fine = ("unchanged", "printer only", "recorded", "updated")
        return [r for r in self.rows if r.kind not in fine]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but prints has changed, no file is missing or extra, and all programs could be made."""
        return not self.changed and not self.failures and (self.removed or not self.extra)

    @property
    def status(self) -> int:
        """The exit status of the verb: 0 clean, 1 not clean; that of the error where a program could not be made."""
        worst = max([f.error.exit_code for f in self.failures], default=0)
        return worst or int(not self.is_clean)

    def parts(self) -> Parts:
        kinds: dict[str, int] = {}
        for r in self.rows:
            kinds[r.kind] = kinds.get(r.kind, 0) + 1
        counts = [f"{n} {kind}" for kind, n in kinds.items()]
        if self.failures:
            counts.append(f"{len(self.failures)} failed")
        found: list[str | Table] = ["; ".join(counts) or "no programs"]
        told = [r for r in self.rows if r.kind != "unchanged"]
        if told:
            cells = [[r.name, r.kind, r.describe()] for r in told]
            found += ["", Table(["program<", "change<", "<"], cells)]
        what = "removed" if self.removed else "extra: no program has this file:"
        found += [f"{what} {file}" for file in self.extra]
        found += [f"failed: {d.message}" for f in self.failures for d in f.diagnostics[:1]]
        for r in told:
            if r.lines:
                found += ["", *r.lines]
        return found

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "clean": self.is_clean,
            "programs": [
                {
                    "name": r.name,
                    "file": r.file,
                    "kind": r.kind,
                    "note": r.note,
                    "figures": {k: {"before": a, "after": b} for k, (a, b) in r.figures.items()},
                    "lines": [*r.lines],
                }
                for r in self.rows
            ],
            "failed": [{"name": f.name, "error": f.diagnostics[0].message} for f in self.failures],
            "missing": [r.file for r in self.rows if r.kind == "missing"],
            "removed" if self.removed else "extra": self.extra,
        }
