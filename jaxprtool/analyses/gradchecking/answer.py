"""The answer of `gradcheck`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.analyses.gradchecking.equations import Finding
from jaxprtool.analyses.gradchecking.found import Check, Mismatch

__all__ = ["Derivative", "GradCheck"]

_SHOWN = 10
_NOTES = {
    "kink": "a kink or a jump",
    "stopped": "no derivative passes, although the result changes",
    "quantile": "a draw, whose derivative is that of the distribution, and not of the draws of this key",
    "symmetric": "a derivative along symmetric directions alone, of a matrix that is symmetric",
    "promise": "indices that are not as the equation promises, so that it has no derivative",
}


@dataclass(frozen=True)
class Derivative:
    """The checks of a program, or of a derivative of it.

    Attributes:
      order: 1, or 2 for the derivative of a derivative.
      of: the mode of the derivative that was differentiated; None for the program itself.
      checks: the check of each mode.
      equations: the equations whose derivatives disagree with their differences.
      explained: whether all equations agree, and the derivative of the whole disagrees only where
        the program decides otherwise at the ends of the steps.
      arguments: what to call the arguments.
      results: what to call the results.
    """

    order: int
    of: str | None
    checks: Sequence[Check]
    equations: Sequence[Finding] = ()
    explained: bool = False
    arguments: Sequence[str] = ()
    results: Sequence[str] = ()

    @property
    def blame(self) -> list[Finding]:
        """The equations whose rules are wrong."""
        return [f for f in self.equations if f.kind == "wrong"]

    @property
    def mismatches(self) -> list[Mismatch]:
        """What differs in the whole program."""
        return [m for c in self.checks for m in c.wrong]

    @property
    def passed(self) -> bool:
        """Whether no rule is wrong."""
        return not self.blame and (self.explained or not self.mismatches)

    def lines(self) -> list[str]:
        """Return the checks, what differs, and the equations, line by line."""
        found = [] if self.of is None else [f"derivatives of {self.of}:"]
        found += map(_row, self.checks)
        if not self.passed:
            worst = {m.mode: m for m in reversed(self.mismatches)}
            found += [f"  {m.described(self.arguments, self.results)}" for m in worst.values()]
        elif self.mismatches and not any(f.kind in _NOTES for f in self.equations):
            found.append("  each equation agrees at its own values: the program is not smooth here")
        return found + self.equation_lines()

    def equation_lines(self) -> list[str]:
        """Return lines for the equations that are to blame, then for those whose derivatives are not defined or do not pass."""
        found: list[str] = []
        for f in self.blame:
            found += [f"the rule of {f.place}", f"  {f.place.in_full()}", f"  {f.mismatch}"]
        if not self.passed and not self.blame:
            found.append("no single equation disagrees with its differences at its own values")
        for kind, what in _NOTES.items():
            those = [f for f in self.equations if f.kind == kind]
            found += [f"{what}: {f.place}  {f.place.in_full()}" for f in those[:_SHOWN]]
            if len(those) > _SHOWN:
                found.append(f"... and {len(those) - _SHOWN} more")
        return found

    def json(self) -> dict[str, Any]:
        """The keys order, of, passed, modes, mismatches and notes."""
        return {
            "order": self.order,
            "of": self.of,
            "passed": self.passed,
            "modes": [c.json() for c in self.checks],
            "mismatches": [m.json() for m in self.mismatches],
            "notes": [f.json() for f in self.equations if f.kind != "wrong"],
        }


def _row(c: Check) -> str:
    if c.reason:
        return f"{c.mode:<8}not available: {c.reason}"
    by = ", by complex steps" if c.steps == "complex" else ""
    rest = f"{c.compared} compared{by}, largest difference {c.max_abs:.2g}"
    if c.kinks:
        rest += f", {c.kinks} at kinks"
    if c.unsure:
        rest += f", {c.unsure} not known well enough"
    return f"{c.mode:<8}{c.status:<8} {rest}"


@dataclass(frozen=True)
class GradCheck(Answer):
    """Whether the derivatives of a program agree with its differences, and whose rule is to blame where they do not.

    Attributes:
      derivatives: the checks of the program, then those of its derivatives.
    """

    derivatives: list[Derivative] = field(default_factory=list[Derivative])

    @property
    def passed(self) -> bool:
        """Whether no derivative is wrong."""
        return all(d.passed for d in self.derivatives)

    @property
    def blame(self) -> list[Finding]:
        """The equations whose rules are wrong."""
        return [f for d in self.derivatives for f in d.blame]

    def lines(self) -> list[str]:
        """The answer for people."""
        return [line for d in self.derivatives for line in d.lines()]

    def json(self) -> dict[str, Any]:
        """One document: the keys schema, passed, derivatives and blame."""
        return {
            "schema": 1,
            "passed": self.passed,
            "derivatives": [d.json() for d in self.derivatives],
            "blame": [f.json() for f in self.blame],
        }
