"""The answer of `triage`: at which stage two programs, or the outputs of two installations, begin to differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.stages import Buffers
from jaxprtool.analyses.table import Parts, Report, Table, size_text

__all__ = ["STAGES", "Stage", "Triage", "Triaged"]

STAGES = ("jaxpr", "StableHLO", "optimised HLO", "buffers")
_VERDICTS = {
    "jaxpr": "the program changed",
    "StableHLO": "the program is the same, and JAX lowers it to another StableHLO",
    "optimised HLO": "only the compiler changed: of the same StableHLO it makes another HLO",
    "buffers": "only the buffers changed: the same HLO lies in memory in another way",
}


class Stage(NamedTuple):
    """One stage of compilation, of both sides.

    Attributes:
      name: one of `STAGES`.
      status: `equal`, `different`, or `unknown` where it is not known of both sides.
      note: how it differs, or why it is not known.
      buffers: the buffers of both sides, where they are known.
      lines: the difference, for a jaxpr.
    """

    name: str
    status: str
    note: str = ""
    buffers: tuple[Buffers, Buffers] | None = None
    lines: Sequence[str] = ()


class Triaged(NamedTuple):
    """A program, with its stages on both sides."""

    name: str
    stages: Sequence[Stage]

    @property
    def first(self) -> Stage | None:
        """The first stage that differs."""
        return next((s for s in self.stages if s.status == "different"), None)

    @property
    def verdict(self) -> str:
        """What has changed, in one line."""
        known = [s.name for s in self.stages if s.status != "unknown"]
        if self.first is None:
            return "nothing changed" if known else "nothing is known of both"
        rest = [s for s in self.stages if s.status == "equal" and s.name != "buffers"]
        if self.first.name == "jaxpr" and any(s.name == STAGES[1] for s in rest):
            return "the jaxpr changed, and what is compiled did not"
        before = STAGES[: STAGES.index(self.first.name)]
        if not any(name in known for name in before) and before:
            return f"{self.first.name} changed; of earlier stages nothing is known"
        return _VERDICTS[self.first.name]


class Triage(Report):
    """At which stage programs begin to differ.

    Attributes:
      programs: the programs that both sides have.
      only_a: the names of programs that only side A has.
      only_b: the names of programs that only side B has.
    """

    __slots__ = ("only_a", "only_b", "programs")

    def __init__(
        self,
        programs: Sequence[Triaged],
        only_a: Sequence[str] = (),
        only_b: Sequence[str] = (),
    ):
        self.programs, self.only_a, self.only_b = [*programs], [*only_a], [*only_b]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs, as far as it is known."""
        return all(p.first is None for p in self.programs) and not self.only_a + self.only_b

    def parts(self) -> Parts:
        found: list[str | Table] = []
        if len(self.programs) > 1:
            rows = [[p.name, p.verdict] for p in self.programs]
            found += [Table(["program<", "verdict<"], rows)]
        for p in self.programs:
            if len(self.programs) == 1 or p.first is not None:
                found += [*[""] * bool(found), *_told(p)]
        for what, names in (("A", self.only_a), ("B", self.only_b)):
            found += [f"only in {what}: {name}" for name in names]
        return found or ["there are no programs"]

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "same": self.is_same,
            "programs": [
                {
                    "name": p.name,
                    "verdict": p.verdict,
                    "first": None if p.first is None else p.first.name,
                    "stages": [_stage_json(s) for s in p.stages],
                }
                for p in self.programs
            ],
            "only_a": self.only_a,
            "only_b": self.only_b,
        }


def _told(p: Triaged) -> list[str | Table]:
    name = f"{p.name}: " if p.name else ""
    rows = [[s.name, s.status, s.note] for s in p.stages]
    found: list[str | Table] = [f"{name}{p.verdict}", Table(["stage<", "<", "<"], rows)]
    for s in p.stages:
        if s.buffers is not None:
            found += ["", _buffers(*s.buffers)]
    lines = [line for s in p.stages for line in s.lines]
    return [*found, *["", *lines] * bool(lines)]


def _buffers(a: Buffers, b: Buffers) -> Table:
    fields = [*zip(Buffers._fields, a, b, strict=True), ("total, aliased once", a.total, b.total)]
    rows = [
        [size_text(x), size_text(y), f"{y - x:+,} B" if x != y else "", k] for k, x, y in fields
    ]
    return Table(["A", "B", "change", "buffers<"], rows)


def _stage_json(s: Stage) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": s.name, "status": s.status, "note": s.note}
    if s.buffers is not None:
        found |= {
            side: {**buffers._asdict(), "total": buffers.total}
            for side, buffers in zip("ab", s.buffers, strict=True)
        }
    return {**found, "lines": [*s.lines]} if s.lines else found
