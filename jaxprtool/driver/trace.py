"""Trace Python functions to programs: with JAX where the function uses it, else with our own tracing."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from jaxprtool.analyses.identity.share import share_equal
from jaxprtool.core.caller import recording_callers
from jaxprtool.core.tree import tree_leaves
from jaxprtool.driver.user_code.loading import (
    brings_jax,
    class_named,
    example_arguments,
    load_function,
    user_error,
)
from jaxprtool.driver.user_code.modules import as_script
from jaxprtool.driver.verify import check_text
from jaxprtool.driver.words.examples import offer_examples
from jaxprtool.driver.words.shapes import parse_shape
from jaxprtool.interpreters.functions.parameters import original
from jaxprtool.interpreters.lost_rules import CustomRuleWarning, failed_rules
from jaxprtool.interpreters.origins import show_origins, without_origins
from jaxprtool.interpreters.stage import make_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.synonyms import close_names

__all__ = ["FRONTENDS", "argument_values", "choose_frontend", "trace", "tracer", "without_origins"]

FRONTENDS = ("auto", "jax", "lax", "numpy")

_JAX, _OURS = frozenset({"jax", "jaxlib"}), "jaxprtool"
_FOR_JAX = "jaxprtool.backends.jax."
_LEAVES = _JAX | {_OURS, "numpy", "builtins", "math", "functools", "operator", "itertools"}


def trace(
    target: str | Callable[..., Any],
    shapes: Sequence[Any],
    static: Mapping[str, Any] | None = None,
    x64: bool | None = None,
    frontend: str = "auto",
    like: Sequence[str] = (),
    *,
    host_devices: int | None = None,
    rules: bool = True,
    source: bool = True,
    source_root: str | None = None,
    verify: bool = False,
) -> ClosedJaxpr:
    """Return the program of a Python function.

    Args:
      target: `module:function`, `path/file.py:function`, or the function itself.
      shapes: for each argument its type: a text that `parse_shape` reads, or a pytree of types or
        of values.
      static: keyword arguments that are not traced.
      x64: whether JAX has 64-bit types while it traces; None: if the type of an argument is one.
      frontend: `jax`, `lax` or `numpy` (both ours), or `auto`: JAX for a function that uses it.
      like: names of example arguments, which come before those of `shapes` (see
        `example_arguments`).
      host_devices: the number of devices as which JAX counts the host in this process: as many as
        the function's meshes need.
      rules: whether the program holds the derivative rules of custom functions; they can be longer
        than the functions.
      source: whether equations keep their origins: the line of Python and the name stack.
      source_root: when given, text shows the origins, with paths of files below this folder
        relative to it.
      verify: whether to read the program's text back, and compare.

    Returns:
      The program of the leaves; its `interface` has their names and trees. Equal jaxprs in it are
        one object.

    Raises:
      UsageError: no such function, wrong types or number of arguments, or an exception in the
        function; or JAX has counted the devices before.
      TracerBoolConversionError: the function reads a value that is not known.
    """
    settings: Any = {"static": static, "x64": x64, "frontend": frontend, "like": like}
    return tracer(
        target,
        shapes,
        **settings,
        host_devices=host_devices,
        rules=rules,
        source=source,
        source_root=source_root,
        verify=verify,
    )()


def tracer(
    target: str | Callable[..., Any],
    shapes: Sequence[Any],
    static: Mapping[str, Any] | None = None,
    x64: bool | None = None,
    frontend: str = "auto",
    like: Sequence[str] = (),
    *,
    host_devices: int | None = None,
    rules: bool = True,
    source: bool = True,
    source_root: str | None = None,
    verify: bool = False,
) -> Callable[[], ClosedJaxpr]:
    """Return a function that traces another one, each time that it is called; see `trace`.

    The function is loaded, and its example arguments are made, before this returns.

    Raises:
      UsageError: no such function, wrong types or number of arguments.
    """
    if frontend not in FRONTENDS:
        fail(UsageError, f"no front end {frontend!r}; there are {', '.join(FRONTENDS)}", "frontend")
    if host_devices is not None:
        _count_host_as(host_devices)
    f = load_function(target) if isinstance(target, str) else target
    args = [*_examples(like, target, x64), *[_type_of(s, target) for s in shapes]]
    if frontend == "auto":
        frontend = choose_frontend(f, _is_about_jax(f, target, args))
    if frontend == "jax" and x64 is False and any(map(_is_wide, args)):
        fail(UsageError, "an argument has a 64-bit type, and 64-bit types are off", "x64")
    bound = _with_static(f, static) if static else f
    _check_arguments(f, bound, args, as_options=isinstance(target, str))

    def recorded() -> ClosedJaxpr:
        if frontend != "jax":
            return _trace_with_ours(bound, args)
        from jaxprtool.backends.jax.trace import trace_with_jax  # noqa: PLC0415 (gateway)

        return share_equal(trace_with_jax(bound, tuple(args), x64, rules))

    def traced() -> ClosedJaxpr:
        named = target if isinstance(target, str) else None
        try:
            with as_script(named.rpartition(":")[0]) if named else nullcontext():
                program = recorded()
        except (Exception, SystemExit) as e:  # whatever the user's function raises is theirs to see
            user_error(e, f"tracing {_name(f)}")
        for said in failed_rules(program):
            warnings.warn(f"{said}: the program is without it", CustomRuleWarning, stacklevel=3)
        offer_examples(argument_values(f, args, program) if like and not shapes else ())
        if not source:
            program = without_origins(program)
        elif source_root is not None:
            program = show_origins(program, source_root)
        if verify:
            check_text(program)
        return program

    return traced


def argument_values(
    f: Callable[..., Any], args: Sequence[Any], program: ClosedJaxpr
) -> list[Value]:
    """Return the values of the arguments of a function, one by one, as its program takes them.

    Args:
      f: the function.
      args: its arguments, pytrees of values.
      program: the program that `trace` made of it.

    Returns:
      The leaves. 64-bit values become 32-bit ones where the program's types are, as in JAX while
        64-bit types are off.
    """
    if choose_frontend(f, _is_about_jax(f, f, args)) != "jax":
        leaves = tree_leaves(args)
    else:
        from jaxprtool.backends.jax.trace import traced_leaves  # noqa: PLC0415 (gateway)

        leaves = traced_leaves(tuple(args))
    if len(leaves) != len(program.in_avals):
        return leaves
    return [_narrowed(x, aval) for x, aval in zip(leaves, program.in_avals, strict=True)]


def _narrowed(x: Any, aval: Any) -> Value:
    """Return a 64-bit value in the 32-bit type that the program has for it; other values as they are."""
    dtype = dtype_of(getattr(x, "dtype", None))
    if dtype is None or type(aval) is not ShapedArray or not hasattr(x, "astype"):
        return x
    is_number = dtype.kind == aval.dtype.kind and dtype.kind in "iufc"
    if not is_number or (dtype.real.bits, aval.dtype.real.bits) != (64, 32):
        return x
    return x.astype(aval.dtype.name)


def _is_about_jax(f: Any, target: Any, args: Sequence[Any]) -> bool:
    """Whether a function, the module that it is loaded from, or its arguments use JAX."""
    if (isinstance(target, str) and brings_jax(target)) or _names_jax(original(f)):
        return True
    return "jax" in sys.modules and any(map(_is_for_jax, args))


def _type_of(shape: Any, target: Any) -> Any:
    """Return an argument: the pytree of types that a text spells, or the object that is given."""
    if not isinstance(shape, str):
        return shape
    what = "--shape" if isinstance(target, str) else f"an argument of {_name(target)}"
    return parse_shape(shape, what, classes=lambda name: class_named(name, _home(target)))


def _home(target: Any) -> str:
    """Return the module of a function, as its name on the command line begins."""
    if isinstance(target, str):
        return target
    return f"{getattr(inspect.unwrap(target), '__module__', None) or '__main__'}:"


def _is_wide(arg: Any) -> bool:
    """Whether an argument, made of tuples, lists and dicts, contains a 64-bit type."""
    return any(
        isinstance(a, ShapedArray) and a.dtype.kind in "iufc" and a.dtype.real.bits == 64
        for a in tree_leaves(arg)
    )


def _is_for_jax(arg: Any) -> bool:
    """Whether an argument contains values that our own tracing does not take for arrays: JAX arrays
    and classes, functions.
    """
    ours = (ShapedArray, bool, int, float, complex)
    return not all(isinstance(x, ours) or _package(x) in ("numpy", _OURS) for x in tree_leaves(arg))


def _count_host_as(devices: int) -> None:
    """Make JAX count the host as this many devices, now or when it is imported."""
    if "jax" not in sys.modules:
        os.environ["JAX_NUM_CPU_DEVICES"] = str(devices)
        return
    from jaxprtool.backends.jax.devices import count_host_as  # noqa: PLC0415 (gateway)

    count_host_as(devices)


def _examples(like: Sequence[str], target: Any, x64: bool | None) -> list[Any]:
    """Return the arguments that `--like` names, made with 64-bit types or not."""

    def make() -> list[Any]:
        return [x for name in like for x in example_arguments(name, _home(target))]

    if x64 is None or "jax" not in sys.modules:
        return make()
    from jaxprtool.backends.jax.trace import with_x64  # noqa: PLC0415 (gateway)

    return with_x64(make, x64)


def _trace_with_ours(f: Callable[..., Any], args: Sequence[Any]) -> ClosedJaxpr:
    with recording_callers():
        return make_jaxpr(f)(*args)


def _with_static(f: Callable[..., Any], static: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of the other parameters, in their order, wherever the static ones stand among them."""
    bound = functools.partial(f, **static)
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):  # a builtin may have none
        return bound
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in static if name not in parameters]
    if unknown and not takes_any:
        message = f"--static {unknown[0]}: {_name(f)}{inspect.signature(f)} has no such parameter"
        near = close_names(unknown[0], parameters)
        help = f"did you mean {near[0]}?" if near else ""
        fail(UsageError, message, "bad-static", help=help)
    left = [p for name, p in parameters.items() if name not in static]
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in left):
        return bound

    @functools.wraps(f)
    def of_the_others(*args: Any) -> Any:
        names = (p.name for p in left)
        return bound(**dict(zip(names, args, strict=False)))

    of_the_others.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    return of_the_others


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _check_arguments(
    f: Any, bound: Callable[..., Any], args: Sequence[Any], *, as_options: bool
) -> None:
    try:
        signature = inspect.signature(bound)
    except (TypeError, ValueError):  # a builtin may have none
        return
    try:
        signature.bind(*args)
    except TypeError as e:
        fail(
            UsageError,
            f"{_name(f)}{inspect.signature(f)} cannot take {counted(len(args), 'argument')}: {e}",
            "argument-count",
            help="give --shape once for each argument, or --like the name of example arguments, "
            "and --static name=value for the others"
            if as_options
            else "the arguments of the function stand behind it: jaxprtool.trace(f, *args)",
        )


def _names_jax(f: Any) -> bool:
    """Whether the module of a function has a name for an object of JAX's."""
    function = inspect.unwrap(getattr(f, "__func__", f))
    names = getattr(function, "__globals__", {})
    return any(_package(v) in _JAX for k, v in names.items() if not k.startswith("__"))


def choose_frontend(f: Callable[..., Any], about_jax: bool) -> str:
    """Return `jax` for a function that uses JAX, `lax` for one that uses our lax, else `numpy`.

    Args:
      f: the function.
      about_jax: whether its module or its arguments are JAX's; it decides where the function's own
        code does not show what it uses.
    """
    used = _packages_used(original(f))
    if used & _JAX:
        return "jax"
    if _OURS in used:
        return "lax"
    return "jax" if about_jax and "numpy" not in used else "numpy"


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
    """The top-level package that a module, function, class or object comes from; that of a program
    as a function of JAX is JAX.
    """
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0]
    if inspect.isfunction(value):  # a transformed one has the name of the user's module
        return str(value.__globals__.get("__name__", "")).partition(".")[0]
    module = str(_attribute(type(value), "__module__"))
    if module.startswith(_FOR_JAX):
        return "jax"
    if module.partition(".")[0] not in ("builtins", "functools"):
        return module.partition(".")[0]
    return str(_attribute(value, "__module__") or module).partition(".")[0]


def _named_in(value: Any) -> list[Any]:
    """The global and closed-over values that a function (or what wraps one, or a class) names."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.isclass(value):
        return [v for v in vars(value).values() if callable(v)]
    function = _attribute(value, "__func__") or value
    if not inspect.isfunction(function):  # compiled functions may have code too, and no variables
        return [] if isinstance(value, ModuleType) else [type(value)]
    cells = list(inspect.getclosurevars(function).nonlocals.values())
    names = _names(function.__code__)
    found = [function.__globals__[n] for n in names if n in function.__globals__]
    modules = [v for v in found if isinstance(v, ModuleType) and _package(v) not in _LEAVES]
    attributes = [a for m in modules for n in names if (a := _attribute(m, n)) is not None]
    wrapped = _attribute(value, "__wrapped__")
    return [*cells, *found, *attributes, *([wrapped] if wrapped is not None else [])]


def _attribute(value: Any, name: str) -> Any:
    """Return the attribute of a module or object with a name, or None; a lazy import may fail."""
    try:
        return getattr(value, name, None)
    except Exception:  # code of others runs here: any error is possible
        return None


def _names(code: Any) -> set[str]:
    """Names in a code object and in those of the functions inside it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if inspect.iscode(const):
            names |= _names(const)
    return names
