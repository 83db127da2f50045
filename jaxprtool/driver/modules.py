"""Running a user's Python file as a module, once, whatever asks for it."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

__all__ = ["module_of_file"]

_modules: dict[str, Any] = {}


def module_of_file(path: str) -> Any:
    """Import the .py file at an absolute path; an exception that it raises is passed on.

    A file is both a plugin and the home of functions to trace when it declares the primitives that they
    use, and a primitive is declared once; so it is run once.
    """
    if path not in _modules:
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # a .py file always has a loader
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(name, module)
        spec.loader.exec_module(module)
        _modules[path] = module
    return _modules[path]
