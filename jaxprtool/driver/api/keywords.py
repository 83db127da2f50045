"""Keyword arguments in a call of a verb: those that are not the verb's own are passed to the
function that it is given.

    jt.blame(loss, params, batch, scale=3.0)

They are traced, as by JAX's `make_jaxpr`, and follow the other arguments in the order of their
names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jaxprtool.interpreters.functions.parameters import by_position, function_name
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import named_arguments
from jaxprtool.ir.synonyms import close_names

__all__ = ["for_the_function", "is_function", "is_of_jax", "refuse_texts"]

R = TypeVar("R")
_OF_CALLERS = frozenset(
    {"name", "observer", "timeline"}
)  # keywords that only functions of this package give


def is_of_jax(x: Any) -> bool:
    """Whether an object is a jaxpr of JAX's. Does not import JAX."""
    return type(x).__name__ in ("ClosedJaxpr", "Jaxpr") and type(x).__module__.startswith("jax.")


def is_function(x: Any) -> bool:
    """Whether an object is a function, which is traced on arguments, not a program."""
    return callable(x) and not is_of_jax(x)


def refuse_texts(f: Any, args: Sequence[Any]) -> None:
    """Raise UsageError where an argument of a function is a text, since programs have no such values."""
    for i, x in enumerate(args):
        if isinstance(x, str):
            named = [name for name, _ in named_arguments(f, args)]
            _refuse_text(f, named[i] if i < len(named) else f"arg{i}", x)


def _refuse_text(f: Any, name: str, x: Any) -> None:
    """Raise UsageError where the argument of a name is a text."""
    if isinstance(x, str):
        called = function_name(f)
        message = f"the argument {name} of {called} is the text {x!r}, and arrays are traced"
        how = f"functools.partial({called}, {name}={x!r}) is a function of the other arguments"
        fail(UsageError, message, "argument-type", help=how)


def for_the_function(
    *drivers: Callable[..., Any], programs: int = 1
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a verb so that keywords that are not its own are passed to the functions among its programs.

    Args:
      drivers: functions of the driver whose keywords the verb takes besides those of its own
        signature.
      programs: the number of programs that it takes.
    """

    def wrap(verb: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(verb)
        def call(*given: Any, **keywords: Any) -> R:
            functions = [x for x in given[:programs] if is_function(x)]
            if not keywords or not functions:
                return verb(*given, **keywords)
            own = {*_keywords_of(verb)}.union(*map(_keywords_of, drivers)) - _OF_CALLERS
            theirs = {k: x for k, x in keywords.items() if k not in own}
            if not theirs:
                return verb(*given, **keywords)
            for f in functions:
                _check_keywords(verb.__name__, f, theirs, own)
            args = given[programs:]
            bound = [
                by_position(x, args, theirs)[0] if is_function(x) else x for x in given[:programs]
            ]
            args = by_position(functions[0], args, theirs)[1]
            return verb(*bound, *args, **{k: x for k, x in keywords.items() if k in own})

        return call

    return wrap


def _keywords_of(f: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(f).parameters.values()
    return {p.name for p in parameters if inspect.isclass(f) or p.kind is p.KEYWORD_ONLY}


def _check_keywords(
    verb: str, f: Callable[..., Any], theirs: Mapping[str, Any], own: set[str]
) -> None:
    """Raise UsageError for a keyword that a function does not take, or whose value cannot be traced."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):  # a builtin may have none
        return
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, value in theirs.items():
        if name not in parameters and not takes_any:
            message = (
                f"neither jaxprtool.{verb} nor {function_name(f)}{inspect.signature(f)} has a keyword "
                f"{name}"
            )
            near = close_names(name, [*own, *parameters])
            help = f"did you mean {near[0]}?" if near else ""
            fail(UsageError, message, "option", help=help)
        _refuse_text(f, name, value)
