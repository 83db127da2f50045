"""Settings of a project: `[tool.jaxprtool]` in the `pyproject.toml` nearest above a file."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, cast

from jaxprtool.driver.storage.files import STDIN
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.syntax.releases.dialects import find_dialect

__all__ = ["dialect_of_project", "project_file", "settings_in"]

_FILE = "pyproject.toml"


def dialect_of_project(path: str) -> str:
    """Return the dialect in which a project writes its files, `dialect = "jax-0.12"`; "" where the
    settings do not name one.

    Args:
      path: a file of the project; input from a pipe belongs to the project of the current folder.

    Raises:
      UsageError: the settings cannot be read, or name no dialect.
    """
    found = project_file(os.path.dirname("_" if path in ("-", STDIN) else path))
    if not found:
        return ""
    dialect = settings_in(found).get("dialect", "")
    if not isinstance(dialect, str):
        fail(UsageError, f"{found}: dialect has to be a name in quotes", "bad-settings")
    if dialect:
        find_dialect(dialect)
    return dialect


def project_file(folder: str) -> str:
    """The `pyproject.toml` of a folder, or the nearest one above; "" where there is none."""
    folder = os.path.abspath(folder)
    while not os.path.isfile(found := os.path.join(folder, _FILE)):
        if (above := os.path.dirname(folder)) == folder:
            return ""
        folder = above
    return found


def settings_in(path: str) -> dict[str, Any]:
    """The table `[tool.jaxprtool]` of a file; empty where it has none. Raises UsageError when it cannot be read."""
    try:
        with open(path, "rb") as f:
            raw = f.read()
        if b"jaxprtool" not in raw:
            return {}
        # Only where there is something to read: a start of the program is short.
        read: dict[str, Any] = import_module("tomllib").loads(raw.decode())
    except (OSError, ValueError) as e:
        fail(UsageError, f"cannot read {path}: {e}", "bad-settings")
    found: Any = read
    for key in ("tool", "jaxprtool"):
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
