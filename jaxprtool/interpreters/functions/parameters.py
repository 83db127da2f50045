"""The parameters of Python functions that are transformed: keyword arguments, and static ones.

A transformation acts on arguments by position. `by_position` gives it a function whose keyword
arguments follow the others, in the order of their names, as in JAX; `Statics` says which arguments
are not transformed.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.functions.jax_functions import call
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.interface import named_arguments
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.synonyms import close_names

__all__ = [
    "Statics",
    "as_positions",
    "by_position",
    "function_name",
    "is_one",
    "named_like",
    "of_chosen",
    "of_pair",
    "original",
    "with_keywords",
]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def function_name(f: Callable[..., Any]) -> str:
    """Return the name of a function in a program or in a message."""
    return getattr(f, "__name__", type(f).__name__)


def with_keywords(f: Callable[..., Value], keywords: Mapping[str, Any]) -> Callable[..., Value]:
    """Return `f` with these keyword arguments fixed, so that they are not transformed."""
    return named_like(f, functools.partial(f, **keywords)) if keywords else f


def named_like(f: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """Give a function that a transformation made of `f` the name, module and parameters of f; return it.

    So a function under `@jt.jit` can be pickled.
    """
    functools.update_wrapper(made, f, updated=())
    made.__name__ = function_name(f)
    return made


def by_position(
    f: Callable[..., Value], args: Sequence[Value], keywords: Mapping[str, Value]
) -> tuple[Callable[..., Value], tuple[Value, ...]]:
    """Return a function of positional arguments alone, and its arguments: keyword arguments follow,
    in the order of their names.
    """
    if not keywords:
        return f, tuple(args)
    n, names = len(args), sorted(keywords)

    def of_positions(*values: Value) -> Value:
        return f(*values[:n], **dict(zip(names, values[n:], strict=True)))

    named = _named(of_positions, f, [*_names_of_positions(f, n), *names])
    named._by_position_of = f  # type: ignore[attr-defined]
    return named, (*args, *[keywords[name] for name in names])


def original(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function from which `by_position` made f; f itself, where it did not make it."""
    return getattr(f, "_by_position_of", f)


def _names_of_positions(f: Callable[..., Any], n: int) -> list[str]:
    """Return the names of the first n positional arguments; `arg3` where one has none."""
    names = [name for name, _ in named_arguments(f, [None] * n)]
    if len(names) < n:  # all of `*rest` share one name
        names.pop()
    return [*names, *[f"arg{i}" for i in range(len(names), n)]]


def _named(made: Any, f: Callable[..., Any], names: Sequence[str]) -> Callable[..., Value]:
    """Give a function made of `f` its name, and arguments with these names; return it."""
    made.__name__ = function_name(f)
    if len({*names}) == len(names):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        made.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
    return made


def of_pair(result: Any, f: Callable[..., Any]) -> tuple[Value, Value]:
    """Return the two parts of the result of a function with `has_aux`.

    Raises UsageError where it is no pair.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        what = (
            f"{type(result).__name__} of {len(result)}"
            if isinstance(result, (tuple, list))
            else "no tuple"
        )
        message = f"with has_aux a function returns a pair, and the result of {function_name(f)} is {what}"
        fail(UsageError, message, "no-aux", help="return (value, aux)")
    return result[0], result[1]


def is_one(argnums: Any) -> bool:
    """Whether argnums is one position, not a collection."""
    return not isinstance(argnums, (tuple, list, range, set, frozenset))


def as_positions(argnums: Any, n: int) -> list[int]:
    """Return the positions among n arguments, counted from the start.

    Raises:
      UsageError: a position is out of range, or no integer.
    """
    found: list[int] = []
    for i in [argnums] if is_one(argnums) else argnums:
        try:
            position = operator.index(i)
        except TypeError:
            message = f"argnums has {i!r}, and positions of arguments are needed"
            fail(UsageError, message, "argnums")
        if not -n <= position < n:
            message = f"argnums {i} is out of range for {counted(n, 'argument')}"
            fail(UsageError, message, "argnums")
        found.append(position % n)
    return found


def of_chosen(
    f: Callable[..., Value], args: Sequence[Value], positions: Sequence[int]
) -> tuple[Callable[..., Value], list[Value]]:
    """Return `f` as a function of the arguments at these positions, with the others fixed; and these arguments."""

    def of_these(*chosen: Value) -> Value:
        new = dict(zip(positions, chosen, strict=True))
        return call(f, [new.get(i, x) for i, x in enumerate(args)])

    of_these.__name__ = function_name(f)
    return of_these, [args[i] for i in positions]


class Statics(NamedTuple):
    """The static arguments of a function: Python values that are not traced.

    Attributes:
      positions: from the start, or from the end where negative.
      names: the names of static keyword arguments.
    """

    positions: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, f: Callable[..., Any], argnums: Any, argnames: str | Iterable[str] | None
    ) -> Statics:
        """Return the static arguments of f, given as to `jax.jit`.

        Where only positions or only names are given, the others follow from f's signature, if it
        has them.

        Raises:
          UsageError: f has no such argument.
        """
        if argnums is None and not argnames:
            return cls((), ())
        given = None if argnums is None else _given_positions(argnums)
        names = None if argnames is None else _given_names(argnames)
        try:
            parameters = [*inspect.signature(f).parameters.values()]
        except (TypeError, ValueError):  # a builtin may have no signature
            return cls(tuple(given or ()), tuple(names or ()))
        ordered = [p.name for p in parameters if p.kind in _BY_POSITION]
        kinds = {p.kind for p in parameters}
        if names is not None and inspect.Parameter.VAR_KEYWORD not in kinds:
            for name in names:
                _check_name(f, name, [p.name for p in parameters])
        more = inspect.Parameter.VAR_POSITIONAL in kinds
        positions = [i if more else _position(f, i, len(ordered)) for i in given or ()]
        if names is None:
            names = [ordered[i] for i in positions if -len(ordered) <= i < len(ordered)]
        if given is None:
            positions = [ordered.index(name) for name in names if name in ordered]
        return cls(tuple(positions), tuple(names))

    def apart(
        self, f: Callable[..., Value], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Callable[..., Value], list[Value], dict[str, Value], dict[int | str, Any]]:
        """Separate the static arguments of a call of f.

        Returns a function of the other arguments, these arguments (positional and keyword), and the
        static ones by position or name.
        """
        n = len(args)
        fixed: dict[int | str, Any] = {
            **{i % n: args[i] for i in self.positions if -n <= i < n},
            **{name: keywords[name] for name in self.names if name in keywords},
        }
        if not fixed:
            return f, [*args], {**keywords}, fixed

        def of_the_others(*given: Value, **others: Value) -> Value:
            rest = iter(given)
            full = [fixed[i] if i in fixed else next(rest) for i in range(n)]
            return f(*full, **others, **{k: v for k, v in fixed.items() if isinstance(k, str)})

        left = [i for i in range(n) if i not in fixed]
        names = _names_of_positions(f, n)
        others = {name: x for name, x in keywords.items() if name not in fixed}
        named = _named(of_the_others, f, [names[i] for i in left])
        return named, [args[i] for i in left], others, fixed


def _given_positions(argnums: Any) -> list[int]:
    try:
        return [operator.index(i) for i in ([argnums] if is_one(argnums) else argnums)]
    except TypeError:
        message = f"static_argnums is {argnums!r}, and positions of arguments are needed"
        fail(UsageError, message, "static-argument", help="names are given as static_argnames")


def _given_names(argnames: Any) -> list[str]:
    names = [argnames] if isinstance(argnames, str) or is_one(argnames) else [*argnames]
    if not all(isinstance(name, str) for name in names):
        message = f"static_argnames is {argnames!r}, and names of arguments are needed"
        fail(UsageError, message, "static-argument", help="positions are given as static_argnums")
    return names


def _position(f: Callable[..., Any], i: int, n: int) -> int:
    """Check a static argument's position in a function of n positional ones; return it counted from the start."""
    if not -n <= i < n:
        message = f"static_argnums has {i}, and {function_name(f)} takes {counted(n, 'argument')}"
        fail(UsageError, message, "static-argument")
    return i % n


def _check_name(f: Callable[..., Any], name: str, known: Sequence[str]) -> None:
    if name not in known:
        message = f"static_argnames has {name!r}, and {function_name(f)} has no such parameter"
        near = close_names(name, known)
        help = f"did you mean {near[0]}?" if near else ""
        fail(UsageError, message, "static-argument", help=help)
