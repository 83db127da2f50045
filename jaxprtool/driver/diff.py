"""diff: whether two files hold the same programs, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxprtool.analyses.diff import Change, diff_programs, summary, unified
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.signature import same_program, same_programs
from jaxprtool.driver.constants import has_references, load_constants
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = ["Difference", "diff"]

Programs = dict[str, ClosedJaxpr]


@dataclass(frozen=True)
class Difference:
    """Whether two files are equal up to names, layout and dialect; if not, how they differ.

    Attributes:
      equal: whether they are.
      lines: a unified diff.
      changes: the equations that differ, pairs of those that correspond.
    """

    equal: bool
    lines: list[str] = field(default_factory=list[str])
    changes: Sequence[Change] = field(default=(), repr=False)

    @property
    def summary(self) -> str:
        """How they differ, in a line: `3 added: 2 mul, 1 sin; 1 changed: 1 add`."""
        if self.equal:
            return "equal"
        return summary(self.changes) or "the same equations; arguments, constants or results differ"

    def json(self) -> dict[str, Any]:
        """The keys schema, equal, summary, changes (kind, a, b: places or null) and lines."""
        kinds = {(True, False): "added", (False, True): "removed", (False, False): "changed"}
        changes = [
            {"kind": kinds[c.a is None, c.b is None], "a": _place(c.a), "b": _place(c.b)}
            for c in self.changes
        ]
        told = {"equal": self.equal, "summary": self.summary, "changes": changes}
        return {"schema": 1, **told, "lines": self.lines}


def _place(eqn: JaxprEqn | None) -> dict[str, Any] | None:
    return None if eqn is None else Place(eqn).json()


def diff(
    a: Programs, b: Programs, name_a: str = "a", name_b: str = "b", *, context: int = 3
) -> Difference:
    """Compare the programs of two files.

    Args:
      a, b: programs by name; where each file holds one, its name does not matter.
      name_a, name_b: names for the header of the diff.
      context: lines to show around each change.

    Raises:
      UsageError: the programs differ at first sight, and an `.npz` file with constants of theirs cannot be read.
    """
    if _equal(a, b):
        return Difference(True)
    if any(map(has_references, [*a.values(), *b.values()])):  # names of files say nothing of values
        a, b = _loaded(a), _loaded(b)
        if _equal(a, b):
            return Difference(True)
    changes: list[Change] = []
    lines = diff_programs(a, b, changes)
    return Difference(False, unified(lines, name_a, name_b, context), changes)


def _equal(a: Programs, b: Programs) -> bool:
    if len(a) == len(b) == 1:
        return same_program(next(iter(a.values())), next(iter(b.values())))
    return same_programs(a, b)


def _loaded(programs: Programs) -> Programs:
    return {name: load_constants(program) for name, program in programs.items()}
