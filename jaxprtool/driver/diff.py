"""diff: whether two files hold the same programs, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jaxprtool.analyses.answer import json_number
from jaxprtool.analyses.diffing.diff import Change, Counted, changes_of, diff_programs
from jaxprtool.analyses.diffing.ignored import ignored
from jaxprtool.analyses.diffing.keys import Keys
from jaxprtool.analyses.diffing.page import Section, cells, page
from jaxprtool.analyses.diffing.rows import Row
from jaxprtool.analyses.diffing.text import hunks, summary, unified
from jaxprtool.analyses.diffing.values import Near
from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.analyses.places import Place
from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.storage.constants import has_references, load_constants
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.settled import settled_programs

__all__ = ["Difference", "counted", "diff", "show_side_by_side"]

Programs = dict[str, ClosedJaxpr]


@dataclass(frozen=True)
class Difference:
    """Whether two files are equal up to names, layout and dialect; if not, how they differ.

    Attributes:
      equal: whether they are.
      changes: the equations that differ: pairs of counterparts, and equations of one file alone.
      rows: all lines of both files, with counterparts side by side.
      names: the names of the files.
      context: the number of lines shown around each change.
    """

    equal: bool
    changes: Sequence[Change] = field(default=(), repr=False)
    rows: Sequence[Row] = field(default=(), repr=False)
    names: tuple[str, str] = ("a", "b")
    context: int = 3

    @cached_property
    def lines(self) -> list[str]:
        """A unified diff, with the names and the numbers of lines of both files; empty where they are equal."""
        return unified(self.rows, *self.names, self.context)

    @property
    def summary(self) -> str:
        """How they differ, in a line: `3 added: 2 mul, 1 sin; 1 changed: 1 add; f32 to f64 at attn`."""
        return "equal" if self.equal else summary(self.changes, self.rows)

    @property
    def status(self) -> int:
        """The exit status: 0 equal, 1 different."""
        return 0 if self.equal else 1

    def html(self) -> str:
        """A page of HTML that shows both files side by side, where they differ."""
        return page([Section(self.names, self.summary, self.rows)], self.context)

    def __str__(self) -> str:
        return "\n".join([self.summary, *self.lines])

    def json(self) -> dict[str, Any]:
        """The keys schema, equal, summary, changes (kind, a, b: places or null; moved), constants and lines."""
        changes = [
            {
                "kind": c.kind,
                "a": _place(c.a, c.path_a),
                "b": _place(c.b, c.path_b),
                "moved": c.moved,
            }
            for c in self.changes
        ]
        constants = [
            {
                "a": row.a and row.a.constant,
                "b": row.b and row.b.constant,
                "different": row.apart and row.apart.different,
                "size": row.apart and row.apart.size,
                "max": None if row.apart is None else json_number(row.apart.most),
            }
            for row in self.rows
            if not row.same and any(p is not None and p.what == "constant" for p in row.parts)
        ]
        told = {"equal": self.equal, "summary": self.summary, "changes": changes}
        return {"schema": 1, **told, "constants": constants, "lines": self.lines}


def _place(eqn: JaxprEqn | None, path: Any) -> dict[str, Any] | None:
    return None if eqn is None else Place(eqn, path).json()


def counted(
    ignore: Iterable[str] = (), rtol: float | None = None, atol: float | None = None
) -> Counted:
    """Return what counts as a difference.

    Args:
      ignore: what does not: order, names, weak, consts, shapes, params:KEY; see
        `analyses.diffing.ignored`.
      rtol, atol: floats in literals and constants are equal where they differ by at most `atol +
        rtol * max(|x|, |y|)`. None for both: where they are the same numbers.

    Raises:
      UsageError: a tolerance is negative or no number, or a word of `ignore` is unknown.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            fail(UsageError, f"{name} is {value}, and has to be 0 or more", "bad-usage")
    near = None if rtol is None and atol is None else Near(rtol or 0.0, atol or 0.0)
    return Counted(ignored((ignore,) if isinstance(ignore, str) else ignore), near)


def diff(
    a: Programs,
    b: Programs,
    name_a: str = "a",
    name_b: str = "b",
    *,
    context: int = 3,
    ignore: Iterable[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> Difference:
    """Compare the programs of two files.

    Args:
      a, b: programs by name; where each file holds one, its name is ignored.
      name_a, name_b: names for the header of the diff.
      context: the number of lines to show around each change.
      ignore, rtol, atol: what does not count as a difference; see `counted`.

    Raises:
      UsageError: the programs seem to differ, and an `.npz` file with constants of theirs cannot be
        read; `ignore`, `rtol` or `atol` is malformed.
    """
    counts = counted(ignore, rtol, atol)
    keys = Keys(counts.ignored)
    a, b = _settled(a), _settled(b)
    if _equal(a, b, keys):
        return Difference(True, names=(name_a, name_b))
    if any(map(has_references, [*a.values(), *b.values()])):  # names of files say nothing of values
        a, b, keys = _loaded(a), _loaded(b), Keys(counts.ignored)
        if _equal(a, b, keys):
            return Difference(True, names=(name_a, name_b))
    rows, changes = _compared(_placed(a, name_a), _placed(b, name_b), counts, keys)
    if all(row.same for row in rows):
        return Difference(True, names=(name_a, name_b))
    return Difference(False, changes, rows, (name_a, name_b), context)


@deep
def _compared(
    a: Programs, b: Programs, counts: Counted, keys: Keys
) -> tuple[list[Row], list[Change]]:
    """Return the lines of a diff, and the changes among them."""
    rows = diff_programs(a, b, counts, keys)
    return rows, changes_of(rows)


def _equal(a: Programs, b: Programs, keys: Keys) -> bool:
    if len(a) == len(b) == 1:
        a, b = ({"": next(iter(x.values()))} for x in (a, b))
    for name in a.keys() & b.keys():
        ours, theirs = keys.ignored.weak_arguments(a[name], b[name])
        if ours != theirs or not keys.may_be_same(a[name], b[name]):
            return False
    return same_programs(a, b, keys)


def _settled(programs: Programs) -> Programs:
    return {name: settled_programs(program) for name, program in programs.items()}


def _loaded(programs: Programs) -> Programs:
    return {name: load_constants(program) for name, program in programs.items()}


def _placed(programs: Programs, name: str) -> Programs:
    """Return the programs with the places of their equations, as far as they can be written."""
    found: Programs = {}
    for key, program in programs.items():
        try:
            found[key] = with_places(program, name)
        except JaxprToolError:  # for example, a variable is not bound
            found[key] = program
    return found


def show_side_by_side(found: Difference, *, color: bool) -> None:
    """Print both files side by side where they differ, in the width of the terminal."""
    from jaxprtool.backends import terminal  # noqa: PLC0415 (gateway: rich, 80 ms)

    shown = [(h.header, [cells(row) for row in h.rows]) for h in hunks(found.rows, found.context)]
    terminal.show_pairs(found.names, shown, color=color)
