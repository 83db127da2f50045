"""Finding a user's Python function by name, and saying what went wrong in the user's own terms."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool.driver.modules import module_of_file
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail
from jaxprtool.ir.spans import Source, Span

__all__ = ["load_function", "user_error"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = (os.sep + "site-packages" + os.sep, os.sep + "lib" + os.sep + "python", "<frozen ")


def load_function(target: str) -> Callable[..., Any]:
    """The function that `module:name` or `path/file.py:name` means; `name` may have dots.

    The current folder (and a file's own folder) is where modules are looked for first.

    Raises:
      UsageError: there is no such module, file or name, the name is no function, or the module fails.
    """
    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        fail(
            UsageError,
            f"not the name of a function: {target!r}",
            "bad-target",
            help="write module:function, or path/to/file.py:function",
        )
    found: Any = _load_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            _no_such_name(module_name, name, found)
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        fail(UsageError, f"{name} in {module_name} is no function but a {kind}", "not-a-function")
    return found


def _no_such_name(module_name: str, name: str, found: Any) -> NoReturn:
    defined = [
        k
        for k, v in vars(found).items()
        if callable(v) and getattr(v, "__module__", None) == getattr(found, "__name__", "")
    ]
    help = f"it defines {', '.join(sorted(defined)[:12])}" if defined else ""
    fail(UsageError, f"{module_name} has no function {name}", "no-such-function", help=help)


def _load_module(name: str) -> Any:
    is_file = name.endswith(".py") or os.sep in name
    path = os.path.abspath(name)
    for folder in (os.path.dirname(path) if is_file else "", os.getcwd()):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    if is_file and not os.path.isfile(path):
        fail(UsageError, f"there is no file {name}", "no-such-file")
    if not is_file and not _exists(name):
        fail(
            UsageError,
            f"there is no module named {name}",
            "no-such-module",
            help="modules are looked for in the current folder and on PYTHONPATH; a file ends in .py",
        )
    try:
        return module_of_file(path) if is_file else importlib.import_module(name)
    except (Exception, SystemExit) as e:  # whatever the user's module raises is theirs to see
        user_error(e, f"importing {name}")


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


_LONGEST_HELP = 500  # characters


def user_error(error: BaseException, doing: str) -> NoReturn:
    """Raise the diagnostic for an exception in the user's code, at the line of theirs that it came from.

    Errors of ours keep their kind and message and gain the position.
    """
    if isinstance(error, SyntaxError) and error.filename:
        span = _line_span(error.filename, error.lineno or 1, (error.offset or 1) - 1)
    else:
        span = _user_span(error)
    if isinstance(error, JaxprToolError):
        old = error.diagnostics
        placed = [Diagnostic(d.message, d.code, d.span or span, d.help, d.severity) for d in old]
        raise type(error)(placed) from error
    first, *rest = [p.replace("\n", " ") for p in str(error).strip().split("\n\n")]
    if isinstance(error, SyntaxError):
        first, rest = error.msg, []
    message = f"{doing} raised {type(error).__name__}" + (f": {first}" if first else "")
    raise UsageError(Diagnostic(message, "user-exception", span, _beginning(rest))) from error


def _beginning(paragraphs: Sequence[str]) -> str:
    """The first paragraphs of what an exception says besides; JAX puts long advice after them."""
    told = itertools.takewhile(lambda p: not p.startswith("---"), paragraphs)
    sizes = itertools.accumulate(map(len, paragraphs))
    return " ".join(p for p, n in zip(told, sizes, strict=False) if n <= _LONGEST_HELP)


def _user_span(error: BaseException) -> Span | None:
    """The innermost line of the traceback that is the user's own."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.isfile(f.filename)]
    for frame in reversed(frames):
        path = os.path.abspath(frame.filename)
        if not path.startswith(_PACKAGE) and not any(part in path for part in _LIBRARIES):
            return _line_span(frame.filename, frame.lineno or 1, frame.colno, frame.end_colno)
    return None


def _line_span(filename: str, line: int, start: int | None, end: int | None = None) -> Span | None:
    try:
        with open(filename, encoding="utf-8") as f:
            text = f.read()
    except (OSError, UnicodeDecodeError):
        return None
    lines = text.splitlines(keepends=True)
    if not 1 <= line <= len(lines):
        return None
    offset = sum(map(len, lines[: line - 1]))
    width = len(lines[line - 1].rstrip())
    first = min(start or 0, max(width - 1, 0))
    last = end if end is not None and first < end <= width else width
    return Span(
        Source(text, os.path.relpath(filename)), offset + first, offset + max(last, first + 1)
    )
