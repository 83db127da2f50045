"""A program as a JAX function: called with the pytrees of the function that was traced, under any
transformation of JAX.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.containers import Containers
from jaxprtool.backends.jax.primitives import key_array, key_generator
from jaxprtool.backends.jax.to_jax import to_jax
from jaxprtool.backends.jax.wide_types import has_wide_types
from jaxprtool.backends.numpy_eval import KeyArray, float0, help_on_keys, numbers_of
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, brief, counted, fail
from jaxprtool.ir.interface import Interface, Tree, argument_label, check_count
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["FlatFunction", "to_jax_function"]


def to_jax_function(program: ClosedJaxpr) -> Callable[..., Any]:
    """Return the function that a program computes, for JAX; see `jaxprtool.to_jax_function`."""
    return _Function(program)


class _Function:
    """The program as a function of the pytrees of its interface, or of leaves where it has none.

    A pickle or a copy of it is made anew from the program.
    """

    def __init__(self, program: ClosedJaxpr) -> None:
        self._program, self._flat, self._interface = (
            program,
            FlatFunction(program),
            of_open(program),
        )
        ins, outs = map(str, _open_avals(program)), map(str, program.out_avals)
        if self._interface is None:
            self.__doc__ = f"({', '.join(ins)}) -> [{', '.join(outs)}]"
        else:
            self.__doc__ = self._interface.filled(ins, outs)
            self.__signature__ = _signature(self._interface)
        self.__name__ = self.__qualname__ = "program"

    def __call__(self, *args: Any, **named: Any) -> Any:
        interface = self._interface
        if interface is None:
            return self._flat(*args, **named)
        containers = Containers()
        leaves: list[Any] = []
        for (name, tree), x in zip(interface.args, _bound(interface, args, named), strict=True):
            leaves += containers.leaves(tree, x, name)
        return containers.filled(interface.result, iter(self._flat(*leaves)))

    def __reduce__(self) -> tuple[Any, ...]:
        return to_jax_function, (self._program,)


class FlatFunction:
    """The program as a function of leaves: values of the constants that it does not hold, then of its arguments.

    Attributes:
      avals: the types of the leaves.

    Raises:
      UsageError: the program has 64-bit types, which are off in JAX; or, when it is called, an
        argument does not fit.
      UnsupportedError: as `to_jax`.
    """

    def __init__(self, program: ClosedJaxpr) -> None:
        self._wide = has_wide_types(program)
        _check_width(self._wide)
        with jax.ensure_compile_time_eval():
            closed = to_jax(_with_open_arguments(program))
        self._run = private.jaxpr_as_fun(closed)
        self._interface, self.avals = of_open(program), _open_avals(program)

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return arguments as JAX's arrays of their types."""
        check_count(len(self.avals), len(args), self._interface)
        pairs = enumerate(zip(args, self.avals, strict=True))
        return [_argument(x, aval, i, self._interface) for i, (x, aval) in pairs]

    def __call__(self, *args: Any) -> list[Any]:
        _check_width(self._wide)
        return self._run(*self.arguments(args))


def _check_width(wide: bool) -> None:
    if wide and not jax.config.read("jax_enable_x64"):
        fail(
            UsageError,
            "the program has 64-bit types, which JAX is told not to have",
            "x64",
            help='jax.config.update("jax_enable_x64", True) first',
        )


def _with_open_arguments(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with the constants that have no value as its first arguments."""
    pairs = list(zip(program.jaxpr.const_binders, program.consts, strict=True))
    missing = [v for v, c in pairs if c is None]
    if not missing:
        return program
    held = [(v, c) for v, c in pairs if c is not None]
    jaxpr = program.jaxpr.replace(
        in_binders=[*missing, *program.jaxpr.in_binders], const_binders=[v for v, _ in held]
    )
    return ClosedJaxpr(jaxpr, [c for _, c in held])


def _open_avals(program: ClosedJaxpr) -> list[Any]:
    pairs = zip(program.jaxpr.const_binders, program.consts, strict=True)
    return [*(v.aval for v, c in pairs if c is None), *program.in_avals]


# Arguments.


def _bound(interface: Interface, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """Return the arguments in order, given by position or by name; those without leaves may be left out.

    Raises:
      UsageError: one is missing, is given twice, or is not known.
    """
    names = [name for name, _ in interface.args]
    args = _with_rest(interface, args)
    if len(args) > len(names):
        takes = f"{counted(len(names), 'argument')} ({', '.join(names)})"
        fail(UsageError, f"the program takes {takes}, and {len(args)} are given", "argument-count")
    found = dict(zip(names, args, strict=False))
    for name, x in named.items():
        if name in found or name not in names:
            which = "is given twice" if name in found else "is none of the program's"
            fail(UsageError, f"the argument {name} {which}", "argument-name", help=str(interface))
        found[name] = x
    for name, tree in interface.args:
        if name not in found and tree.size:
            fail(UsageError, f"the argument {name} is missing", "argument-count")
    return [found.get(name) for name in names]


def _with_rest(interface: Interface, args: Sequence[Any]) -> Sequence[Any]:
    """Pack the arguments of `*rest`, where they are given one by one, into the one tuple that an
    interface has for them.

    A text does not distinguish `*rest` from an argument that is a tuple, so both may be given
    either way: if there are as many further arguments as the tuple has elements, they are its
    elements. A single argument is the element unless it is a tuple like it itself.
    """
    n = len(interface.args) - 1
    if n < 0 or len(args) <= n:
        return args
    last = interface.args[-1][1]
    rest = tuple(args[n:])
    fits = last.kind == "tuple" and len(rest) == len(last.children)
    if not fits or (len(rest) == 1 and _is_that_tuple(rest[0], last)):
        return args
    return [*args[:n], rest]


def _is_that_tuple(x: Any, tree: Tree) -> bool:
    """Whether a value is a one-element tuple with this tree, not its element: only one of both can
    be nested so deeply.
    """
    while tree.kind == "tuple" and len(tree.children) == 1:
        if not isinstance(x, (tuple, list)) or len(x) != 1:  # pyright: ignore[reportUnknownArgumentType]
            return False
        x, tree = x[0], tree.children[0]  # pyright: ignore[reportUnknownVariableType]
    return True


def _argument(x: Any, aval: Any, position: int, interface: Interface | None) -> Any:
    """Convert an argument to JAX's array of its type; tracers and references stay as they are.

    Keys may be given by their words.

    Raises:
      UsageError: it has another shape or dtype, or cannot be converted.
    """
    is_keys = isinstance(aval, ShapedArray) and aval.dtype.kind == "k"

    def refuse(message: str) -> NoReturn:
        label = argument_label(position, None, interface)
        help = help_on_keys(aval) if is_keys else ""
        fail(UsageError, f"{label} {message}", "argument-type", help=help)

    if not isinstance(aval, ShapedArray):
        return x
    if isinstance(x, KeyArray):
        x = key_array(x)
    elif aval.dtype.kind == "0":
        return x if isinstance(x, private.Tracer) else np.zeros(aval.shape, float0)
    elif isinstance(x, (bool, int, float, complex, list, tuple)):
        try:
            x = jax.numpy.asarray(numbers_of(x, aval))
        except (TypeError, ValueError, OverflowError):
            refuse(f"is {brief(x)}, which is no {aval}")
    elif not isinstance(x, (jax.Array, private.Tracer)):
        try:
            x = jax.numpy.asarray(np.asarray(x))
        except (TypeError, ValueError):
            refuse(f"is of the type {type(x).__name__}, and {aval} is needed")
    theirs = private.type_of(x)
    if is_keys and theirs.dtype == np.uint32 and theirs.shape == aval.physical.shape:
        return jax.random.wrap_key_data(x, impl=key_generator(aval.dtype).name)
    if theirs.shape != aval.shape or theirs.dtype.name != aval.dtype.name:
        refuse(f"has type {private.type_text(theirs)}, and {aval} is needed")
    return x


# What the function says of itself.


def _signature(interface: Interface) -> inspect.Signature:
    """Return parameters with the names of the arguments; from the first optional one on, all have a default."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    for name, tree in interface.args:
        if not tree.size or any(p.default is None for p in parameters):
            parameters.append(inspect.Parameter(name, kind, default=None))
        else:
            parameters.append(inspect.Parameter(name, kind))
    return inspect.Signature(parameters)
