"""snapshot: keep programs of a project as files, and find what has changed since."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.snapshot_answer import Failure, Recorded, Snapshots
from jaxprtool.driver.diff import Difference, diff
from jaxprtool.driver.discharge import discharge
from jaxprtool.driver.grad import grad
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.opt import opt
from jaxprtool.driver.projects.changed import DIFFERENT, PRINTER, figures, kind_of_change
from jaxprtool.driver.projects.settings import dialect_of_project
from jaxprtool.driver.projects.snapshot_settings import Entry, Settings, snapshot_settings
from jaxprtool.driver.storage.constants import references
from jaxprtool.driver.storage.files import decode, load, read_bytes
from jaxprtool.driver.storage.output import as_written, write_programs
from jaxprtool.driver.trace import trace
from jaxprtool.driver.verify import check_results
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.diagnostics import JaxprParseError, JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.spans import Span
from jaxprtool.ir.synonyms import close_names

__all__ = ["check", "compared", "keep_changed", "record", "update"]

Programs = dict[str, ClosedJaxpr]


class Kept(NamedTuple):
    """A file of a snapshot: its name, `loss` or `loss.grad`, its path, and the programs that belong there now."""

    name: str
    file: str
    programs: Programs


def record(folder: str = ".", names: Sequence[str] = (), *, verify: bool = False) -> Snapshots:
    """Write the programs that have no file yet.

    Args:
      folder: the folder of the project; its settings are in the `pyproject.toml` there or above.
      names: the names of the programs; () for all.
      verify: whether to type-check what is written.

    Raises:
      UsageError: bad settings; no program of a name; a folder that cannot be written.

    A function that cannot be traced, or a file that is no jaxpr, is among the `failures` of the
    answer.
    """
    settings = snapshot_settings(folder)
    rows: list[Recorded] = []
    failures: list[Failure] = []
    for kept in _present(settings, names, verify, failures):
        if os.path.exists(kept.file):
            rows += _compared_if_read(kept, settings, failures)
        else:
            _write(kept.file, kept.programs)
            rows.append(Recorded(kept.name, kept.file, "recorded"))
    return Snapshots(rows, _extra(settings) if not names else [], failures)


def check(folder: str = ".", names: Sequence[str] = (), *, verify: bool = False) -> Snapshots:
    """Make each program anew and compare it with its file.

    Args, Raises: as `record`.
    """
    settings = snapshot_settings(folder)
    rows: list[Recorded] = []
    failures: list[Failure] = []
    for kept in _present(settings, names, verify, failures):
        rows += _compared_if_read(kept, settings, failures)
    return Snapshots(rows, _extra(settings) if not names else [], failures)


def update(folder: str = ".", names: Sequence[str] = (), *, verify: bool = False) -> Snapshots:
    """Write the programs whose files are missing or differ, and remove the files that belong to none.

    An `.npz` file is removed when a replaced or removed program referred to it, and none does now.

    Args, Raises: as `record`.
    """
    settings = snapshot_settings(folder)
    rows: list[Recorded] = []
    failures: list[Failure] = []
    arrays: set[str] = set()
    for kept in _present(settings, names, verify, failures):
        if not os.path.exists(kept.file):
            _write(kept.file, kept.programs)
            rows.append(Recorded(kept.name, kept.file, "recorded"))
            continue
        row = _replaced(kept, settings)
        if row.kind != "unchanged":
            arrays |= _arrays(kept.file)
            _write(kept.file, kept.programs)
            note = row.note if row.kind == "unreadable" else "; ".join([row.kind, row.note])
            note = note.removesuffix("; ")
            row = row._replace(kind="updated", note=note, lines=())
        rows.append(row)
    extra = _extra(settings) if not names else []
    for file in extra:
        arrays |= _arrays(file)
        os.unlink(file)
    _remove_arrays(settings.directory, arrays)
    return Snapshots(rows, extra, failures, removed=True)


def _replaced(kept: Kept, settings: Settings) -> Recorded:
    """Do as `_compared`, for a file that may be no jaxpr: it may contain a conflict from a merge, say."""
    try:
        return _compared(kept, settings)
    except JaxprParseError:
        return Recorded(kept.name, kept.file, "unreadable", "its file was no jaxpr")


# -- the programs as they are now ---------------------------------------------------------------------


def _present(
    settings: Settings, names: Sequence[str], verify: bool, failures: list[Failure]
) -> Iterator[Kept]:
    """Return the files that should exist, with their current programs; those that cannot be made
    are added to `failures`.
    """
    known = [e.name for e in settings.entries]
    for name in names:
        if name not in known:
            near = close_names(name, known)
            help = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            fail(UsageError, f"no program is called {name}", "no-such-program", help=help)
    root = os.path.dirname(settings.file)
    if root not in sys.path:
        sys.path.insert(0, root)  # for functions that are named by their module
    for entry in settings.entries:
        if names and entry.name not in names:
            continue
        try:
            yield from _made_of(entry, settings.directory, verify)
        except JaxprToolError as e:
            failures.append(Failure(entry.name, e, os.path.relpath(settings.file)))


def _made_of(entry: Entry, directory: str, verify: bool) -> Iterator[Kept]:
    for verb, made in _made(entry):
        programs = {key: without_origins(p) for key, p in made.items()}
        name = f"{entry.name}.{verb}" if verb else entry.name
        if verify:
            check_results(verb or "trace", programs)
        yield Kept(name, os.path.relpath(os.path.join(directory, f"{name}.jaxpr")), programs)


def _made(entry: Entry) -> Iterator[tuple[str, Programs]]:
    """Return the program of a function under "", and its transformations by verbs, after passes."""
    with contextlib.redirect_stdout(sys.stderr):  # the output of the function
        program = trace(
            entry.function,
            entry.shapes,
            entry.static,
            entry.x64,
            entry.frontend,
            entry.like,
            rules=entry.rules,
        )
    for verb in ("", *entry.verbs):
        result = _VERBS[verb](program, entry) if verb else program
        programs = result if isinstance(result, dict) else {"": result}
        if entry.passes:
            programs = {key: opt(p, entry.passes) for key, p in programs.items()}
        yield verb, programs


def _vmap(program: ClosedJaxpr, entry: Entry) -> ClosedJaxpr:
    how: dict[str, Any] = {"in_axes": entry.in_axes, "axis_size": entry.axis_size}
    return vmap(program, **{k: v for k, v in how.items() if v is not None})


_VERBS: Mapping[str, Callable[[ClosedJaxpr, Entry], ClosedJaxpr | Programs]] = {
    "jvp": lambda p, e: jvp(p, e.wrt),
    "vmap": _vmap,
    "linearize": lambda p, e: linearize(p, e.wrt),
    "vjp": lambda p, e: vjp(p, e.wrt),
    "grad": lambda p, e: grad(p, e.wrt),
    "discharge": lambda p, e: discharge(p),
}


# -- comparing ----------------------------------------------------------------------------------------


def _compared_if_read(kept: Kept, settings: Settings, failures: list[Failure]) -> list[Recorded]:
    """Do as `_compared`; return an error where the file is no jaxpr."""
    try:
        return [_compared(kept, settings)]
    except JaxprToolError as e:
        failures.append(Failure(kept.name, e))
        return []


def _compared(kept: Kept, settings: Settings) -> Recorded:
    return compared(kept.name, kept.file, kept.programs, settings.rtol, settings.atol)


def compared(
    name: str,
    file: str,
    programs: Programs,
    rtol: float | None = None,
    atol: float | None = None,
) -> Recorded:
    """Compare a program, as it is now, with its file.

    Args:
      name: its name.
      file: the path of its file, which may not exist.
      programs: the programs that belong there now.
      rtol, atol: see `kind_of_change`.

    Raises:
      UsageError, JaxprParseError: the file cannot be read.
    """
    if not os.path.exists(file):
        return Recorded(name, file, "missing")
    text = decode(*read_bytes(file))
    old = load(text, file)
    if text == _as_kept(programs, file):
        return Recorded(name, file, "unchanged")
    kind = kind_of_change(old, programs, rtol, atol)
    if kind.word == PRINTER:
        return Recorded(name, file, kind.word)
    found = diff(old, programs, file, name)
    note = kind.note or (found.summary if kind.word == DIFFERENT else "")
    before, after = figures(old), figures(programs)
    span = _first_place(found, old)
    return Recorded(name, file, kind.word, note, before, after, found.lines, span)


def _first_place(found: Difference, old: Programs) -> Span | None:
    """Return the first place in the file that differs; its beginning, where only equations of the
    new program differ.
    """
    spans = [c.a.span for c in found.changes if c.a is not None and c.a.span is not None]
    first = next(iter(old.values())).jaxpr.span if old else None
    return min(spans, key=lambda s: s.start) if spans else first


# -- files --------------------------------------------------------------------------------------------


def keep_changed(file: str, programs: Programs) -> None:
    """Write programs to their file, where that has another text; its folder is made if it is missing.

    An `.npz` file is removed if the former programs referred to it, and none in the folder does
    now.

    Raises:
      UsageError: the file cannot be written.
    """
    before = set[str]()
    if os.path.exists(file):
        if read_bytes(file)[0] == _as_kept(programs, file).encode():
            return
        before = _arrays(file)
    _write(file, programs)
    _remove_arrays(os.path.dirname(file), before)


def _write(file: str, programs: Programs) -> None:
    folder = os.path.dirname(file) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        fail(UsageError, f"cannot make the folder {folder}: {reason}", "unwritable-file")
    write_programs(programs, file, dialect=dialect_of_project(file))


def _as_kept(programs: Programs, file: str) -> str:
    """Return the text for the file of programs, in the dialect of the project."""
    return as_written(programs, file, dialect_of_project(file)).text


def _extra(settings: Settings) -> list[str]:
    """Return the files of programs in the folder that belong to none of the settings."""
    named = {
        f"{name}.jaxpr"
        for e in settings.entries
        for name in (e.name, *(f"{e.name}.{verb}" for verb in e.verbs))
    }
    return [file for file in _files(settings.directory) if os.path.basename(file) not in named]


def _files(folder: str) -> list[str]:
    """The files of programs in a folder."""
    found = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.relpath(os.path.join(folder, x)) for x in found if x.endswith(".jaxpr")]


def _arrays(file: str) -> set[str]:
    """Return the `.npz` files to which the programs of a file refer; none for a file that is no jaxpr."""
    try:
        programs = load(decode(*read_bytes(file)), file).values()
    except JaxprParseError:
        return set()
    return {path for p in programs for path in references(p)}


def _remove_arrays(folder: str, before: set[str]) -> None:
    """Remove `.npz` files to which a program referred, and none does now."""
    if not before:
        return
    for path in before - {path for file in _files(folder) for path in _arrays(file)}:
        with contextlib.suppress(OSError):
            os.unlink(path)
