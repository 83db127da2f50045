"""From Python functions to programs: with JAX where the function uses it, else with our own tracing."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from jaxprtool.core.tree import tree_leaves
from jaxprtool.driver.loading import load_function, user_error
from jaxprtool.driver.shapes import parse_shape
from jaxprtool.driver.verify import check_text
from jaxprtool.interpreters.stage import make_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.analyses.share import share_equal

__all__ = ["FRONTENDS", "choose_frontend", "trace"]

FRONTENDS = ("auto", "jax", "lax", "numpy")

_JAX, _OURS = frozenset({"jax", "jaxlib"}), "jaxprtool"
_LEAVES = _JAX | {_OURS, "numpy", "builtins", "math", "functools", "operator", "itertools"}


def trace(
    target: str | Callable[..., Any],
    shapes: Sequence[Any],
    static: Mapping[str, Any] | None = None,
    x64: bool | None = None,
    frontend: str = "auto",
    *,
    rules: bool = True,
    verify: bool = False,
) -> ClosedJaxpr:
    """The program of a Python function.

    Args:
      target: `module:function`, `path/file.py:function`, or the function itself.
      shapes: for each argument its type: a text that `parse_shape` reads, or a pytree of `ShapedArray`s.
      static: keyword arguments that are not traced.
      x64: whether JAX has 64-bit types while it traces; None for "where an argument is one".
      frontend: `jax`, `lax` or `numpy` (both ours), or `auto`: JAX for a function that uses it.
      rules: whether the program holds the derivative rules of custom functions; they can be longer than the functions.
      verify: whether to read the program's text back, and compare.

    Returns:
      The program; its arguments and results are the leaves of the function's. Equal jaxprs in it are one object.

    Raises:
      UsageError: no such function, wrong types or number of arguments, or an exception in the function.
      TracerBoolConversionError: the function looks at a value that is not known.
    """
    if frontend not in FRONTENDS:
        fail(UsageError, f"no front end {frontend!r}; there are {', '.join(FRONTENDS)}", "frontend")
    had_jax = "jax" in sys.modules
    f = load_function(target) if isinstance(target, str) else target
    args = [parse_shape(s) if isinstance(s, str) else s for s in shapes]
    if frontend == "auto":
        frontend = choose_frontend(f, "jax" in sys.modules and not had_jax)
    bound = functools.partial(f, **static) if static else f
    _check_arguments(f, bound, args)
    wide = any(isinstance(a, ShapedArray) and a.dtype.name[-2:] == "64" for a in tree_leaves(args))
    if frontend == "jax" and wide and x64 is False:
        fail(UsageError, "an argument has a 64-bit type, and 64-bit types are off", "x64")
    try:
        if frontend != "jax":
            return _verified(make_jaxpr(bound)(*args), verify)
        from jaxprtool.backends.jax_bridge import trace_with_jax  # noqa: PLC0415 (gateway)

        program = trace_with_jax(bound, tuple(args), wide if x64 is None else x64, rules)
    except Exception as e:  # whatever the user's function raises is theirs to see
        user_error(e, f"tracing {_name(f)}")
    return _verified(share_equal(program), verify)


def _verified(program: ClosedJaxpr, verify: bool) -> ClosedJaxpr:
    """The program; where that is asked for, once its text is known to read back as the same program."""
    if verify:
        check_text(program)
    return program


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _check_arguments(f: Any, bound: Callable[..., Any], args: Sequence[Any]) -> None:
    try:
        signature = inspect.signature(bound)
    except (TypeError, ValueError):  # a builtin may have none
        return
    try:
        signature.bind(*args)
    except TypeError as e:
        fail(
            UsageError,
            f"{_name(f)}{inspect.signature(f)} cannot take {len(args)} types: {e}",
            "argument-count",
            help="give --shape once for each argument, and --static name=value for the others",
        )


def choose_frontend(f: Callable[..., Any], loaded_jax: bool) -> str:
    """`jax` for a function that uses JAX, `lax` for one that uses our lax, else `numpy`.

    Args:
      f: the function.
      loaded_jax: whether loading its module was what loaded JAX; it decides where the function's own
        code does not show what it uses.
    """
    used = _packages_used(f)
    if used & _JAX:
        return "jax"
    if _OURS in used:
        return "lax"
    return "jax" if loaded_jax and "numpy" not in used else "numpy"


def _packages_used(f: Any) -> set[str]:
    """Packages whose objects a function names, directly or through functions that it names."""
    used: set[str] = set()
    seen: set[int] = set()
    todo: list[Any] = [f]
    while todo:
        value = todo.pop()
        if id(value) in seen or len(seen) > 10_000:
            continue
        seen.add(id(value))
        package = _package(value)
        used.add(package)
        if package not in _LEAVES:
            todo += _named_in(value)
    return used


def _package(value: Any) -> str:
    """The top-level package that a module, function, class or object comes from."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0]
    module = type(value).__module__.partition(".")[0]
    if module not in ("builtins", "functools"):
        return module
    return str(getattr(value, "__module__", None) or module).partition(".")[0]


def _named_in(value: Any) -> list[Any]:
    """The global and closed-over values that a function (or what wraps one, or a class) names."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.isclass(value):
        return [v for v in vars(value).values() if callable(v)]
    function = getattr(value, "__func__", value)
    code = getattr(function, "__code__", None)
    if code is None:
        return [] if isinstance(value, ModuleType) else [type(value)]
    cells = list(inspect.getclosurevars(function).nonlocals.values())
    names = _names(code)
    found = [function.__globals__[n] for n in names if n in function.__globals__]
    modules = [v for v in found if isinstance(v, ModuleType)]
    attributes = [
        getattr(m, n)
        for m in modules
        for n in names
        if _package(m) not in _LEAVES and hasattr(m, n)
    ]
    wrapped = getattr(value, "__wrapped__", None)
    return [*cells, *found, *attributes, *([wrapped] if wrapped is not None else [])]


def _names(code: Any) -> set[str]:
    """Names in a code object and in those of the functions inside it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if inspect.iscode(const):
            names |= _names(const)
    return names
