"""Plugins: a user's own module that declares primitives and gives them rules."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback

from jaxprtool.driver.user_code.modules import imported
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail

__all__ = ["load_plugin", "loaded_plugins", "plugin_at_work"]


def load_plugin(name: str) -> None:
    """Import a module by its name, or a file by its path (`plugins/my_ops.py`), once.

    Programs that are read from then on may contain the primitives that it declares to this package,
    or only to JAX.

    Raises:
      UsageError: there is no such module or file, or running it raised an exception.
    """
    is_path = name.endswith(".py") or os.sep in name
    key = os.path.abspath(name) if is_path else name
    if key not in _loaded:
        _load(key, name, is_path)
        _loaded[key] = None
        if "jax" in sys.modules:
            from jaxprtool.backends.jax.process import (  # noqa: PLC0415 (gateway: JAX)
                declare_primitives_of_process,
            )

            declare_primitives_of_process()


def loaded_plugins() -> list[str]:
    """Return the loaded plug-ins: paths of files, and names of modules."""
    return [*_loaded]


def plugin_at_work(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost line of a plug-in in the traceback of an exception; None where none is in it."""
    homes = [*filter(None, map(_home, _loaded))]
    frames = traceback.extract_tb(error.__traceback__)
    return next(
        (f for f in reversed(frames) if os.path.abspath(f.filename).startswith(tuple(homes))), None
    )


def _home(key: str) -> str | None:
    """The file of a plug-in, or the folder of one that is a package."""
    if key.endswith(".py"):
        return key
    found = getattr(sys.modules.get(key), "__file__", None)
    return found and found.removesuffix("__init__.py")


_loaded: dict[str, None] = {}


def _load(key: str, name: str, is_path: bool) -> None:
    if is_path and not os.path.isfile(key):
        fail(UsageError, f"--plugin {name}: there is no such file", "no-plugin")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not is_path and _missing(name):
        fail(
            UsageError,
            f"--plugin {name}: there is no such module",
            "no-plugin",
            help="a module is looked for in the current folder and on PYTHONPATH; a file ends in .py",
        )
    try:
        with contextlib.redirect_stdout(sys.stderr):
            imported(name, key if is_path else None)
    except JaxprToolError as e:
        d = e.diagnostics[0]
        raise UsageError(
            Diagnostic(f"--plugin {name}: {d.message}", "plugin-failed", help=d.help)
        ) from e
    except (
        Exception,
        SystemExit,
    ) as e:  # what a user's module raises is theirs to see, without our frames
        _failed(name, e)


def _missing(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return True


def _failed(name: str, error: BaseException) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError):
        place = f" at {error.filename}:{error.lineno}"
    fail(
        UsageError,
        f"--plugin {name} raised {type(error).__name__}{place}: {error}",
        "plugin-failed",
    )
