"""diff of two folders: compare the files of programs with equal names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.diffing.page import Section, page
from jaxprtool.driver.diff import Difference, counted, diff
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.diagnostics import counted as number_of
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import count_eqns

__all__ = ["FileDifference", "FolderDifference", "are_folders", "diff_folders"]

_SUFFIX = ".jaxpr"
_KINDS = ("changed", "added", "removed", "unreadable", "equal")
Load = Callable[[str], dict[str, ClosedJaxpr]]


class FileDifference(NamedTuple):
    """How the files of one name in two folders differ.

    Attributes:
      name: the name of both, relative to the folders.
      kind: `equal`, `changed`, `added`, `removed`, or `unreadable`.
      summary: what differs, in a line; for a file of one folder alone its size, for an unreadable
        one the reason.
      difference: the difference of files that were compared; else None.
    """

    name: str
    kind: str
    summary: str
    difference: Difference | None = None

    def json(self) -> dict[str, Any]:
        """The keys name, kind, summary, changes and constants."""
        told = {} if self.difference is None else self.difference.json()
        parts = {key: told.get(key, []) for key in ("changes", "constants")}
        return {"name": self.name, "kind": self.kind, "summary": self.summary, **parts}


class FolderDifference(NamedTuple):
    """How two folders differ.

    Attributes:
      folders: their names.
      files: all files, by name.
      context: lines to show around each change.
    """

    folders: tuple[str, str]
    files: Sequence[FileDifference]
    context: int = 3
    rows = ()

    @property
    def equal(self) -> bool:
        """Whether all files are in both folders, and equal."""
        return all(f.kind == "equal" for f in self.files)

    @property
    def status(self) -> int:
        """The exit status: 0 equal, 1 different, 2 where a file cannot be read."""
        unreadable = any(f.kind == "unreadable" for f in self.files)
        return 2 if unreadable else 0 if self.equal else 1

    @property
    def summary(self) -> str:
        """How many files differ: `1 changed, 2 added, 5 equal`."""
        counts = [(sum(f.kind == kind for f in self.files), kind) for kind in _KINDS]
        return ", ".join(f"{n:,} {kind}" for n, kind in counts if n)

    @property
    def lines(self) -> list[str]:
        """A line for each file that is not equal."""
        shown = [f for f in self.files if f.kind != "equal"]
        width = max([len(f.name) for f in shown], default=0)
        return [f"{f.kind:10}  {f.name:{width}}  {f.summary}".rstrip() for f in shown]

    def json(self) -> dict[str, Any]:
        """The keys schema, equal, summary and files."""
        told = {"schema": 1, "equal": self.equal, "summary": self.summary}
        return {**told, "files": [f.json() for f in self.files]}

    def html(self) -> str:
        """A page of HTML that shows the files that differ."""
        sections = [Section(self.folders, self.summary)]
        for f in self.files:
            if f.kind != "equal":
                rows = () if f.difference is None else f.difference.rows
                sections.append(Section((f.name, f.name), f"{f.kind}: {f.summary}", rows))
        return page(sections, self.context)


def are_folders(a: str, b: str) -> bool:
    """Whether both are folders. Raises UsageError where only one is."""
    found = [os.path.isdir(x) for x in (a, b)]
    if any(found) and not all(found):
        folder, other = (a, b) if found[0] else (b, a)
        message = f"{folder} is a folder, and {other} is none"
        fail(UsageError, message, "bad-usage", help="two files are compared, or two folders")
    return all(found)


def diff_folders(
    a: str, b: str, load: Load, *, context: int = 3, **counts: Any
) -> FolderDifference:
    """Compare the `.jaxpr` files of two folders, those in folders inside too.

    Args:
      a, b: the folders.
      load: reads the programs of a file.
      context: lines to show around each change.
      counts: what counts as a difference; see `driver.diff.counted`.

    Raises:
      UsageError: neither folder has such a file; what counts is malformed.
    """
    counted(**counts)
    names = [_names(x) for x in (a, b)]
    if not any(names):
        fail(UsageError, f"there are no {_SUFFIX} files in {a} and {b}", "bad-usage")
    files = [
        _compared(
            name,
            a if name in names[0] else "",
            b if name in names[1] else "",
            load,
            counts,
            context,
        )
        for name in sorted({*names[0], *names[1]})
    ]
    return FolderDifference((a, b), files, context)


def _names(folder: str) -> set[str]:
    """The files of programs below a folder, relative to it."""
    found: set[str] = set()
    for path, _, files in os.walk(folder):
        found |= {
            os.path.relpath(os.path.join(path, f), folder) for f in files if f.endswith(_SUFFIX)
        }
    return found


def _compared(
    name: str, a: str, b: str, load: Load, counts: dict[str, Any], context: int
) -> FileDifference:
    """Compare a file of two folders; "" stands for a folder that does not have it."""
    try:
        programs = [load(os.path.join(folder, name)) for folder in (a, b) if folder]
        if len(programs) == 1:
            n = sum(count_eqns(p.jaxpr) for p in programs[0].values())
            return FileDifference(name, "removed" if a else "added", number_of(n, "equation"))
        paths = [os.path.join(folder, name) for folder in (a, b)]
        found = diff(programs[0], programs[1], *paths, context=context, **counts)
    except JaxprToolError as e:
        return FileDifference(name, "unreadable", e.diagnostics[0].message)
    return FileDifference(name, "equal" if found.equal else "changed", found.summary, found)
