"""Find a user's Python function by name, and report errors in the user's own terms."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, NoReturn, cast

import jaxprtool
from jaxprtool.driver.user_code.modules import as_script, imported
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, fail
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.synonyms import close_names
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "brings_jax",
    "class_named",
    "example_arguments",
    "is_function",
    "load_function",
    "user_error",
]

_PACKAGE = os.path.dirname(os.path.abspath(jaxprtool.__file__)) + os.sep
_LIBRARIES = (os.sep + "site-packages" + os.sep, os.sep + "lib" + os.sep + "python", "<frozen ")


_FUNCTION = pattern(r"(?:.*\.py|[A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*(?:\.\w+)*", re.DOTALL)


def is_function(path: str) -> bool:
    """Whether a word that names a program means a function, `module:name`; a file of that spelling wins."""
    return _FUNCTION.fullmatch(path) is not None and not os.path.exists(path)


def load_function(target: str) -> Callable[..., Any]:
    """Return the function that `module:name` or `path/file.py:name` means; `name` may have dots.

    Modules are searched first in the current folder, and in a file's own folder.

    Raises:
      UsageError: there is no such module, file or name, the name is no function, or the module
        fails.
    """
    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        fail(
            UsageError,
            f"not the name of a function: {target!r}",
            "bad-target",
            help="write module:function, or path/to/file.py:function",
        )
    found = _find(module_name, name, "function")
    if not callable(found):
        kind = type(found).__name__
        fail(UsageError, f"{name} in {module_name} is no function but a {kind}", "not-a-function")
    return found


def example_arguments(name: str, beside: str) -> tuple[Any, ...]:
    """Return the arguments for which `--like NAME` stands.

    Args:
      name: `module:name`, `path/file.py:name`, or only the name of an object in the module of
        `beside`. It names a value, or a function that is called without arguments; `NAME(8,128)`
        calls it with numbers.
      beside: the function that the arguments are for, as for `load_function`.

    Returns:
      The elements of a tuple; anything else is a single argument.

    Raises:
      UsageError: there is no object of that name, or it raises.
    """
    called = _CALLED.fullmatch(name)
    named, numbers = called.groups() if called else (name, "")
    module_name, _, attribute = named.rpartition(":")
    found = _find(module_name or beside.rpartition(":")[0], attribute, "value")
    if isinstance(found, _FUNCTIONS) or hasattr(found, "__wrapped__") or called:
        try:
            with as_script(module_name or beside.rpartition(":")[0]):
                found = found(*[int(n) for n in numbers.split(",") if n])
        except (Exception, SystemExit) as e:  # whatever the user's function raises is theirs to see
            user_error(e, f"--like {name}")
    return cast("tuple[Any, ...]", found) if type(found) is tuple else (found,)


_CALLED = pattern(r"([^()]+)\(((?:\d{1,18},)*\d{1,18})\)")
_FUNCTIONS: tuple[type[Any], ...] = (FunctionType, BuiltinFunctionType, partial)


def class_named(name: str, beside: str) -> type | None:
    """The class with a (perhaps dotted) name in the module of a function; None where there is none."""
    found = _load_module(beside.rpartition(":")[0])
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _find(module_name: str, name: str, what: str) -> Any:
    """The object with a (perhaps dotted) name in a module. Raises UsageError where there is none."""
    found = _load_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            _no_such_name(module_name, name, part, found, what)
        found = getattr(found, part)
    return found


def _no_such_name(module_name: str, name: str, part: str, found: Any, what: str) -> NoReturn:
    own: str = getattr(found, "__name__", "")
    members: Mapping[str, Any] = getattr(found, "__dict__", {})
    defined = [
        k for k, v in members.items() if not k.startswith("_") and (what == "value" or callable(v))
    ]
    first = [k for k in defined if getattr(members[k], "__module__", own) == own]
    near = close_names(part, defined)
    help = f"did you mean {' or '.join(near)}?" if near else ""
    if not near and first:
        help = f"it defines {', '.join(sorted(first)[:12])}"
    fail(UsageError, f"{module_name} has no {what} {name}", f"no-such-{what}", help=help)


def _load_module(name: str) -> Any:
    is_file = name.endswith(".py") or os.sep in name
    path = os.path.abspath(name)
    for folder in (os.path.dirname(path) if is_file else "", os.getcwd()):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    if is_file and not os.path.isfile(path):
        folder = os.path.dirname(path)
        files = os.listdir(folder) if os.path.isdir(folder) else []
        near = close_names(os.path.basename(path), [x for x in files if x.endswith(".py")])
        help = f"did you mean {' or '.join(near)}?" if near else ""
        fail(UsageError, f"there is no file {name}", "no-such-file", help=help)
    if not is_file and not _exists(name):
        fail(
            UsageError,
            f"there is no module named {name}",
            "no-such-module",
            help=_nearest_module(name),
        )
    had_jax = "jax" in sys.modules
    try:
        module = imported(name, path if is_file else None)
        _brought_jax.setdefault(path if is_file else name, not had_jax and "jax" in sys.modules)
        return module
    except (Exception, SystemExit) as e:  # whatever the user's module raises is theirs to see
        user_error(e, f"importing {name}")


_brought_jax: dict[str, bool] = {}


def brings_jax(target: str) -> bool:
    """Whether loading the module of a function, the first time, loaded JAX."""
    name = target.rpartition(":")[0]
    return _brought_jax.get(name) or _brought_jax.get(os.path.abspath(name), False)


def _nearest_module(name: str) -> str:
    """Return similar names for a module that does not exist."""
    files = [x for x in os.listdir() if x.endswith(".py")]
    near = close_names(name, [x.removesuffix(".py") for x in files])
    if near:
        return f"did you mean {' or '.join(f'{x}.py' for x in near)}?"
    return "modules are looked for in the current folder and on PYTHONPATH; a file ends in .py"


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
    help = _concretization_help(error) or _devices_help(message) or _beginning(rest)
    if isinstance(error, SystemExit) and error.code == 2:  # as argument parsers exit
        help = "the code runs without arguments of a command line: `sys.argv` has its name alone"
    raise UsageError(Diagnostic(message, "user-exception", span, help)) from error


def _devices_help(message: str) -> str:
    """Return what to do where JAX finds too few devices for a mesh."""
    few = "number of devices" in message.lower()
    return "--host-devices N gives JAX N devices on this host" if few else ""


# JAX's errors for a value that is looked at while only its type is known; all are of one class.
_CONCRETIZATION = "ConcretizationTypeError"
_KEEP_STATIC = "an argument that says how, not what, is given as --static name=value"


def _concretization_help(error: BaseException) -> str:
    """Return what to do about an exception for reading a value that is not known; "" for other exceptions."""
    kinds = [k.__name__ for k in type(error).__mro__]
    if "TracerBoolConversionError" in kinds:
        return f"{_KEEP_STATIC}; a choice by a value is made with jax.lax.cond or jax.numpy.where"
    if "TracerIntegerConversionError" in kinds:
        return f"{_KEEP_STATIC}; an array is indexed by a value as jax.numpy.asarray(x)[i]"
    if "NonConcreteBooleanIndexError" in kinds:
        return "a mask selects with jax.numpy.where(mask, x, y): the shape may not depend on values"
    if "TracerArrayConversionError" in kinds:
        return f"{_KEEP_STATIC}; of JAX's values jax.numpy takes the place of numpy"
    if "static arguments" in str(error):  # of a function under `jax.jit(f, static_argnums=...)`
        return f"{_KEEP_STATIC}, and in Python by functools.partial"
    return f"{_KEEP_STATIC}" if _CONCRETIZATION in kinds else ""


def _beginning(paragraphs: Sequence[str]) -> str:
    """Return the first paragraphs of an exception's message; JAX puts long advice after them."""
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
