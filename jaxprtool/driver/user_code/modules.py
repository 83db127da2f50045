"""A user's Python files and modules: each is run once, whatever needs it, and as if the user ran it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from jaxprtool.core.stack import run_in_waiting_thread

__all__ = ["as_script", "imported"]

_modules: dict[str, Any] = {}
_set_handler = signal.signal


@contextmanager
def as_script(path: str) -> Generator[None]:
    """Run a user's code inside the block as Python would run the file.

    `sys.argv` has only its path, not our arguments, and handlers of signals can be set, which
    Python allows only in the main thread. This is for calls of functions; `imported` runs a module
    in the main thread.
    """
    argv, before = sys.argv, signal.signal
    sys.argv, signal.signal = [path], _handler_set_in_main_thread
    try:
        yield
    finally:
        sys.argv, signal.signal = argv, before


def _handler_set_in_main_thread(signalnum: Any, handler: Any, /) -> Any:
    """A replacement for `signal.signal`, which a file that imported it in such a block may call later, too."""
    return run_in_waiting_thread(_set_handler, signalnum, handler)


def imported(name: str, path: str | None = None) -> Any:
    """Import a user's module as Python runs a script: in the main thread, where `asyncio` has an
    event loop, for example.

    Args:
      name: the module, or the file as the user names it.
      path: the absolute path of the .py file; None for a module.

    Raises:
      What the module raises.
    """
    with as_script(name):
        if path is None:
            module = run_in_waiting_thread(importlib.import_module, name)
        else:
            module = run_in_waiting_thread(_module_of_file, path)
    _take_default_flags()
    return module


def _take_default_flags() -> None:
    """Give the flags of `absl` their defaults, as `absl.app.run` would without arguments; reading
    one raises until then.
    """
    flags: Any = sys.modules.get("absl.flags")
    if flags is not None and not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def _module_of_file(path: str) -> Any:
    """Import the .py file at an absolute path.

    A file is both a plugin and the home of functions to trace when it declares the primitives that they
    use, and a primitive is declared once; so it is run once. A file with relative imports is imported as a module of
    its package.
    """
    if path not in _modules:
        _modules[path] = _member_of_package(path) or _run(path)
    return _modules[path]


def _run(path: str) -> Any:
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def _member_of_package(path: str) -> Any:
    """The module of a file with relative imports, by its name below the root of its package; None for other files."""
    levels = _levels(path)
    root = _root_of_package(path) if levels else None
    if root is None:
        return None
    parts = os.path.splitext(os.path.relpath(path, root))[0].split(os.sep)
    if len(parts) <= levels or not all(map(str.isidentifier, parts)):
        return None
    if root not in sys.path:
        sys.path.insert(0, root)
    module = importlib.import_module(".".join(parts))
    found = getattr(module, "__file__", None)
    return module if found and os.path.samefile(found, path) else None


def _levels(path: str) -> int:
    """Return how many folders up the relative imports of a file reach; 0 where it has none, or cannot be read."""
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return 0
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def _root_of_package(path: str) -> str | None:
    """The folder of the outermost package around a file; without an `__init__.py`, the current folder if the file is below it."""
    folder = os.path.dirname(path)
    root = folder
    while os.path.isfile(os.path.join(root, "__init__.py")) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    if root != folder:
        return root
    here = os.getcwd()
    return here if path.startswith(os.path.join(here, "")) else None
