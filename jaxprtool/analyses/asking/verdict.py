"""The answers of `assert` and `grep`: what is true, and what matches where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.analyses.asking.items import Item, Match
from jaxprtool.analyses.asking.numbers import json_count, plain_number
from jaxprtool.analyses.asking.subject import Unknown
from jaxprtool.ir.diagnostics import counted

__all__ = ["Fact", "Found", "Verdict", "Verdicts"]


@dataclass(frozen=True)
class Fact:
    """A part of an expression that decides it.

    Attributes:
      text: the part.
      holds: whether it is true.
      says: what was found, in words.
      count: how many matches there are, where it is about matches of one pattern; else None.
      items: what matches, or what violates the expression.
      values: the numbers that were found: what each is, and its value.
    """

    text: str
    holds: bool
    says: str
    count: int | None
    items: Sequence[Item]
    values: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Verdict:
    """Whether an expression is true of a program; as a boolean it is that.

    Attributes:
      expression: the expression.
      holds: whether it is true.
      facts: what decides it.
      warnings: names in it that nothing has.
    """

    expression: str
    holds: bool
    facts: Sequence[Fact]
    warnings: Sequence[Unknown] = ()

    def __bool__(self) -> bool:
        return self.holds

    @property
    def count(self) -> int | None:
        """How many matches there are, where exactly one fact says it; else None."""
        counts = [f.count for f in self.facts if f.count is not None]
        return counts[0] if len(counts) == 1 else None

    @property
    def values(self) -> list[tuple[str, float]]:
        """The numbers that were found: what each is, and its value."""
        return [v for f in self.facts for v in f.values]

    @property
    def matches(self) -> list[Match]:
        """The matches that were found, in the order of the program."""
        items = [i for f in self.facts for i in f.items]
        return list(dict.fromkeys(i.match() for i in items))

    def lines(self, top: int = 20) -> list[str]:
        """Return the verdict for people: the expression and, where it is false, what was found and where."""
        found = [f"{'true ' if self.holds else 'FALSE'}  {self.expression}"]
        if self.holds:
            return found
        for fact in self.facts:
            found.append(f"       {fact.says}")
            shown = list(dict.fromkeys(i.match() for i in fact.items[: top + 1]))
            found += [f"         {m}" for m in shown[:top]]
            if len(fact.items) > top:
                found.append(f"         ... and {len(fact.items) - top:,} more")
        return found

    def json(self, top: int = 20) -> dict[str, Any]:
        """The verdict with the keys expression, holds, count, values, says, matches, places and warnings."""
        items = [i for f in self.facts for i in f.items]
        shown = list(dict.fromkeys(i.match() for i in items[:top]))
        return {
            "expression": self.expression,
            "holds": self.holds,
            "count": json_count(self.count),
            "values": [{"what": w, "value": json_count(v)} for w, v in self.values],
            "says": [f.says for f in self.facts],
            "matches": len(items),
            "places": [m.json() for m in shown],
            "warnings": [w.message for w in self.warnings],
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Verdicts(Answer):
    """The verdicts of several expressions; as a boolean, whether all are true.

    Attributes:
      program: the program that they were asked of.
      verdicts: one for each expression.
      top: how many matches of each people see.
    """

    __slots__ = ("program", "top", "verdicts")

    def __init__(self, program: str, verdicts: Sequence[Verdict], top: int):
        self.program, self.verdicts, self.top = program, [*verdicts], top

    def __bool__(self) -> bool:
        return self.holds

    @property
    def holds(self) -> bool:
        """Whether all are true."""
        return all(v.holds for v in self.verdicts)

    @property
    def failed(self) -> list[Verdict]:
        """Those that are not true."""
        return [v for v in self.verdicts if not v.holds]

    def lines(self) -> list[str]:
        found = [line for v in self.verdicts for line in v.lines(self.top)]
        n, bad = len(self.verdicts), len(self.failed)
        some = counted(n, "assertion")
        if bad:
            return [*found, f"{bad:,} of {some} {'is' if bad == 1 else 'are'} false"]
        return [*found, f"{some} {'is' if n == 1 else 'are'} true"]

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "program": self.program,
            "holds": self.holds,
            "assertions": [v.json(self.top) for v in self.verdicts],
        }


class Found(Answer):
    """The matches of a pattern in programs; as a boolean, whether there are any.

    Attributes:
      pattern: the pattern.
      programs: for each program its name and its matches.
      only_count: whether people only see numbers.
      warnings: names in the pattern that nothing has.
    """

    __slots__ = ("only_count", "pattern", "programs", "warnings")

    def __init__(
        self,
        pattern: str,
        programs: Sequence[tuple[str, Sequence[Match]]],
        only_count: bool = False,
        warnings: Sequence[Unknown] = (),
    ):
        self.pattern, self.programs, self.only_count = pattern, [*programs], only_count
        self.warnings = [*warnings]

    def __bool__(self) -> bool:
        return bool(self.matches)

    @property
    def matches(self) -> list[Match]:
        """The matches in all programs."""
        return [m for _, matches in self.programs for m in matches]

    @property
    def count(self) -> int:
        """How often all matches are in the programs."""
        return sum(m.times for m in self.matches)

    def lines(self) -> list[str]:
        if not self.only_count:
            return [str(m) for m in self.matches]
        counts = [(name, sum(m.times for m in matches)) for name, matches in self.programs]
        if len(counts) == 1:
            return [plain_number(counts[0][1]).replace(",", "")]
        return [f"{name}:{plain_number(n)}".replace(",", "") for name, n in counts]

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "pattern": self.pattern,
            "count": json_count(self.count),
            "programs": [
                {
                    "program": name,
                    "count": json_count(sum(m.times for m in matches)),
                    "matches": [m.json() for m in matches],
                }
                for name, matches in self.programs
            ],
            "warnings": [w.message for w in self.warnings],
        }
