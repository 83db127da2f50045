"""diff: whether two files hold the same programs, and where they differ."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxprtool.analyses.diff import diff_programs, unified
from jaxprtool.analyses.signature import same_program, same_programs
from jaxprtool.driver.constants import has_references, load_constants
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Difference", "diff"]

Programs = dict[str, ClosedJaxpr]


@dataclass(frozen=True)
class Difference:
    """Whether two files are equal up to names, layout and dialect; if not, a unified diff."""

    equal: bool
    lines: list[str] = field(default_factory=list)


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
    if _load_references([*a.values(), *b.values()]) and _equal(a, b):
        return Difference(True)
    return Difference(False, unified(diff_programs(a, b), name_a, name_b, context))


def _equal(a: Programs, b: Programs) -> bool:
    if len(a) == len(b) == 1:
        return same_program(next(iter(a.values())), next(iter(b.values())))
    return same_programs(a, b)


def _load_references(programs: list[ClosedJaxpr]) -> bool:
    """Load the constants that files hold, whose names say nothing of their values; whether there were any."""
    found = [p for p in programs if has_references(p)]
    for program in found:
        load_constants(program)
    return bool(found)
