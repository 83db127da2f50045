"""The snapshot settings of a project: `[tool.jaxprtool.snapshot]` in its `pyproject.toml`.

[tool.jaxprtool.snapshot]
directory = "jaxprs"

[tool.jaxprtool.snapshot.programs]
loss = { function = "train.py:loss", like = "example_args", verbs = ["grad"], wrt = "params" }
step = { function = "train.py:step", shapes = ["f32[8]"], passes = "inline,dce" }
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, cast

from jaxprtool.driver.projects.settings import project_file, settings_in
from jaxprtool.driver.trace import FRONTENDS
from jaxprtool.driver.words.positions import parse_positions
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.synonyms import close_names

__all__ = ["VERBS", "Entry", "Settings", "snapshot_settings"]

VERBS = ("jvp", "vmap", "linearize", "vjp", "grad", "discharge")
_TABLE = "[tool.jaxprtool.snapshot]"
_NAME = re.compile(r"\w[\w.+=@-]*")


class Entry(NamedTuple):
    """A program of which a snapshot is kept.

    Attributes:
      name: the name of its files.
      function: `file.py:name` or `module:name`.
      shapes, like, static, x64, frontend, rules: how it is traced, as for `driver.trace`.
      verbs: the transformations of it that are kept too.
      passes: a pipeline that runs on the program and its transformations before they are kept; ""
        for none.
      wrt: the arguments for jvp, linearize, vjp and grad; None for the default of each.
      in_axes, axis_size: for vmap; None for the defaults.
    """

    name: str
    function: str
    shapes: Sequence[str] = ()
    like: Sequence[str] = ()
    static: Mapping[str, Any] = MappingProxyType({})
    x64: bool | None = None
    frontend: str = "auto"
    rules: bool = True
    verbs: Sequence[str] = ()
    passes: str = ""
    wrt: Sequence[int | str] | None = None
    in_axes: Any = None
    axis_size: int | None = None


class Settings(NamedTuple):
    """The snapshot settings of a project.

    Attributes:
      file: the `pyproject.toml`.
      directory: the folder of the programs.
      entries: the programs.
      rtol, atol: how far constants may be from those of the snapshot; None: what rounding explains.
    """

    file: str
    directory: str
    entries: Sequence[Entry]
    rtol: float | None = None
    atol: float | None = None


def snapshot_settings(folder: str = ".") -> Settings:
    """The settings of the project that a folder is in.

    Raises:
      UsageError: there are none, or they are not as described above.
    """
    file = project_file(folder)
    table = settings_in(file).get("snapshot") if file else None
    if not isinstance(table, dict):
        where = f"{file} has no" if file else "there is no pyproject.toml here or above, with a"
        help = 'directory = "jaxprs" and a table programs, see `jaxprtool snapshot --help`'
        fail(UsageError, f"{where} table {_TABLE}", "bad-settings", help=help)
    values = cast("dict[str, Any]", table)
    _known(file, values, ("directory", "programs", "rtol", "atol"), _TABLE)
    directory = _of_kind(file, values.get("directory", "jaxprs"), str, "directory", "a text")
    programs = _of_kind(file, values.get("programs", {}), dict, "programs", "a table")
    limits = {k: _number(file, values[k], k) for k in ("rtol", "atol") if k in values}
    root = os.path.dirname(file)
    entries = [_entry(file, str(name), entry) for name, entry in programs.items()]
    _check_files(file, entries)
    return Settings(file, os.path.join(root, directory), entries, **limits)


def _bad(file: str, message: str, help: str = "") -> NoReturn:
    fail(UsageError, f"{os.path.relpath(file)}: {message}", "bad-settings", help=help)


def _known(file: str, table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            near = close_names(key, keys)
            help = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
            _bad(file, f"{where} has a key {key!r}, which means nothing", help)


def _of_kind(file: str, value: Any, kind: type, where: str, what: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        _bad(file, f"{where} has to be {what}, and is {value!r}")
    return value


def _number(file: str, value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        _bad(file, f"{where} has to be a number that is not negative, and is {value!r}")
    return float(value)


def _texts(file: str, value: Any, where: str) -> list[str]:
    """Return a list of texts, given a list or a single one."""
    if isinstance(value, str):
        return [value]
    values = cast("list[Any]", _of_kind(file, value, list, where, "a list of texts"))
    for x in values:
        if not isinstance(x, str):
            _bad(file, f"{where} has to be a list of texts, and has {x!r} in it")
    return values


def _entry(file: str, name: str, table: Any) -> Entry:
    where = f"the program {name!r}"
    if not _NAME.fullmatch(name):
        _bad(file, f"{where}: files cannot be called so", "names have letters, digits, _ . + = @ -")
    if isinstance(table, str):
        table = {"function": table}
    _of_kind(file, table, dict, where, 'a table: { function = "f.py:f", shapes = ["f32[8]"] }')
    keys = [k for k in Entry._fields if k != "name"]
    _known(file, table, keys, where)
    if "function" not in table:
        _bad(file, f"{where} has no function", 'function = "f.py:f"')
    found: dict[str, Any] = {"function": _function(file, table["function"], where)}
    for key in ("shapes", "like", "verbs"):
        if key in table:
            found[key] = _texts(file, table[key], f"{where}: {key}")
    found["like"] = [_beside(file, x) for x in found.get("like", ())]
    for key, kind, what in _KINDS:
        if key in table:
            found[key] = _of_kind(file, table[key], kind, f"{where}: {key}", what)
    if "wrt" in table:
        found["wrt"] = _positions(file, table["wrt"], f"{where}: wrt")
    if "in_axes" in table:
        axes = _axes(file, table["in_axes"], f"{where}: in_axes")
        found["in_axes"] = axes if isinstance(axes, (list, dict)) else [axes]
    if found.get("axis_size", 1) < 1:
        _bad(file, f"{where}: axis_size is at least 1, and not {found['axis_size']}")
    _check_verbs(file, found, where)
    if found.get("frontend", "auto") not in FRONTENDS:
        _bad(file, f"{where}: frontend is one of {', '.join(FRONTENDS)}")
    return Entry(name, **found)


def _positions(file: str, value: Any, where: str) -> list[int | str]:
    """Return names and positions of arguments, given a list or a single one; a text may contain
    several, as for `--wrt`.
    """
    found: list[int | str] = []
    for x in cast("list[Any]", value if isinstance(value, list) else [value]):
        some = parse_positions(x) if isinstance(x, str) else (x,)
        if isinstance(x, bool) or not isinstance(x, (int, str)) or not some:
            _bad(
                file, f'{where} has names or positions of arguments, [0, "x"] say, and is {value!r}'
            )
        found += some
    return found


def _check_verbs(file: str, found: Mapping[str, Any], where: str) -> None:
    """Refuse unknown or repeated verbs, and keys that none of the verbs reads."""
    verbs = found.get("verbs", ())
    for i, verb in enumerate(verbs):
        if verb not in VERBS:
            near = close_names(verb, VERBS)
            help = f"did you mean {near[0]}?" if near else f"there are {', '.join(VERBS)}"
            if "," in verb:
                each = ", ".join([f'"{x.strip()}"' for x in verb.split(",")])
                help = f"verbs = [{each}]"
            _bad(file, f"{where}: verbs cannot have {verb!r}", help)
        if verb in verbs[:i]:
            _bad(file, f"{where}: verbs has {verb!r} twice")
    for key, readers in _READ_BY.items():
        if key in found and not set(readers).intersection(verbs):
            _bad(file, f"{where}: {key} is for {', '.join(readers)}, and verbs has none of them")


_READ_BY = {
    "wrt": ("jvp", "linearize", "vjp", "grad"),
    "in_axes": ("vmap",),
    "axis_size": ("vmap",),
}
_KINDS = (
    ("static", dict, "a table"),
    ("x64", bool, "true or false"),
    ("rules", bool, "true or false"),
    ("frontend", str, "a text"),
    ("passes", str, "a text"),
    ("axis_size", int, "a number"),
)


def _function(file: str, value: Any, where: str) -> str:
    name = _of_kind(file, value, str, f"{where}: function", "a text")
    module, colon, _ = name.rpartition(":")
    if not colon or not module:
        _bad(file, f"{where}: {name!r} names no function", "file.py:name or module:name")
    return _beside(file, name)


def _beside(file: str, name: str) -> str:
    """Return the name of an object in a module, whose file is relative to the folder of the settings."""
    module, colon, attribute = name.rpartition(":")
    if not module.endswith(".py"):
        return name
    path = os.path.join(os.path.dirname(file), module)
    return f"{os.path.relpath(path)}{colon}{attribute}"


def _axes(file: str, value: Any, where: str) -> Any:
    """Return axes for vmap: numbers, and `"-"` for an argument that is not mapped, in lists and tables."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {k: _axes(file, v, where) for k, v in named.items()}
    if isinstance(value, list):
        return [_axes(file, v, where) for v in cast("list[Any]", value)]
    if value == "-":
        return None
    what = 'axes, numbers or "-", alone or in a list or a table'
    return _of_kind(file, value, int, where, what)


def _check_files(file: str, entries: Sequence[Entry]) -> None:
    """Raise UsageError where two programs would have one file."""
    taken: dict[str, str] = {}
    for entry in entries:
        for name in (entry.name, *(f"{entry.name}.{verb}" for verb in entry.verbs)):
            if name in taken:
                _bad(file, f"{taken[name]!r} and {entry.name!r} would both be {name}.jaxpr")
            taken[name] = entry.name
