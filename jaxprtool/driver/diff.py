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
    lines: list[str] = field(default_factory=list[str])


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
    return Difference(False, unified(diff_programs(a, b), name_a, name_b, context))


def _equal(a: Programs, b: Programs) -> bool:
    if len(a) == len(b) == 1:
        return same_program(next(iter(a.values())), next(iter(b.values())))
    return same_programs(a, b)


def _loaded(programs: Programs) -> Programs:
    return {name: load_constants(program) for name, program in programs.items()}
