"""Verbs as functions of Python: each takes a program, or a function and arguments to trace it on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from jaxprtool.driver import check as checking
from jaxprtool.driver import compile as compiling
from jaxprtool.driver import dialects, typing
from jaxprtool.driver import diff as comparing
from jaxprtool.driver import lower as lowering
from jaxprtool.driver import trace as tracing
from jaxprtool.driver.api.keywords import for_the_function, is_function, is_of_jax, refuse_texts
from jaxprtool.driver.check import Signature
from jaxprtool.driver.compile import Compiled
from jaxprtool.driver.diff import Difference
from jaxprtool.driver.storage import constants
from jaxprtool.driver.verify import blaming_the_program
from jaxprtool.interpreters import batch as batching
from jaxprtool.interpreters import check as checks
from jaxprtool.interpreters import discharge as discharging
from jaxprtool.interpreters import evaluate as evaluating
from jaxprtool.interpreters import jvp as jvps
from jaxprtool.interpreters import partial_eval as partial_evals
from jaxprtool.interpreters import transpose as transposing
from jaxprtool.interpreters.functions.parameters import by_position
from jaxprtool.ir.diagnostics import JaxprTypeError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Value
from jaxprtool.passes import rewrite as rewriting
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.syntax import print as printing
from jaxprtool.syntax.inference.open_programs import missing_types

__all__ = [
    "as_program",
    "check",
    "compile",
    "diff",
    "discharge",
    "eval_jaxpr",
    "format_jaxpr",
    "is_function",
    "jaxpr_as_fun",
    "jvp_jaxpr",
    "lower",
    "of_program",
    "partial_eval_jaxpr",
    "rewrite",
    "trace",
    "transpose_jaxpr",
    "typecheck_jaxpr",
    "vmap_jaxpr",
    "with_consts",
    "with_types",
    "with_values",
    "with_values_of_two",
]

P = ParamSpec("P")
R = TypeVar("R")


def as_program(program: Any, *args: Any) -> ClosedJaxpr:
    """Convert a program in any form, or a function and its arguments, to a program.

    Args:
      program: a `ClosedJaxpr` or `Jaxpr`, JAX's or ours; or a function, written with JAX, `jaxprtool.lax` or NumPy.
      args: for a function its arguments: pytrees of arrays, numbers, keys, JAX's `ShapeDtypeStruct`s or
        `ShapedArray`s. Only their types matter.

    Raises:
      UsageError: it is none of these; arguments are given to a program; the function raises.
    """
    if is_function(program):
        return tracing.trace(program, args)
    if args and (isinstance(program, (ClosedJaxpr, Jaxpr)) or is_of_jax(program)):
        message = f"{type(program).__name__} is a program, and takes no arguments here"
        fail(UsageError, message, "argument-count", help="arguments are for functions")
    if isinstance(program, ClosedJaxpr):
        return program
    if isinstance(program, Jaxpr):
        return ClosedJaxpr(program, [None] * len(program.const_binders))
    if is_of_jax(program):
        from jaxprtool.backends.jax.from_jax import from_jax  # noqa: PLC0415 (gateway)

        return from_jax(program)
    fail(
        UsageError,
        f"neither a program nor a function: {type(program).__name__}",
        "not-a-program",
        help="jaxprtool.parse(text) reads a text",
    )


def with_values(program: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, Sequence[Value]]:
    """Return a program in any form, or that of a function, and the values on which to run it, one by one.

    Args:
      program: see `as_program`.
      args: for a program the values of the constants that it does not hold, then its arguments,
        arrays one by one; for a function its arguments, pytrees.
    """
    if not is_function(program):
        return as_program(program), args
    refuse_texts(program, args)
    found = as_program(program, *args)
    return found, tracing.argument_values(program, args, found)


def with_values_of_two(
    a: Any, b: Any, args: Sequence[Any]
) -> tuple[ClosedJaxpr, ClosedJaxpr, Sequence[Value]]:
    """Return two programs, or those of functions, and the values on which to run both, one by one;
    see `with_values`.
    """
    first, second = (as_program(x, *(args if is_function(x) else ())) for x in (a, b))
    for f, program in ((a, first), (b, second)):
        if is_function(f):
            return first, second, tracing.argument_values(f, args, program)
    return first, second, args


def with_types(program: Any, *types: Any) -> ClosedJaxpr:
    """A program whose text leaves types open, as texts of the releases to 0.2.21 do, with types for its arguments.

    Args:
      program: see `as_program`; one that has all its types is returned as it is.
      types: of the constants without values, then of the arguments: texts (`f32[3]`), types, or values of those types.

    Raises:
      UsageError: another number of types, or a text that is no type.
      JaxprTypeError: operations do not fit these types, or a type does not follow even so.
    """
    return typing.with_types(as_program(program), types)


def trace(f: Any, *args: Any, **keywords: Any) -> ClosedJaxpr:
    """The program of a function on arguments, those by keyword last, in the order of their names; see `as_program`."""
    of_args, given = by_position(f, args, keywords)
    return as_program(of_args, *given)


@for_the_function()
def check(program: Any, *args: Any, allow_unknown: bool = False) -> Signature:
    """The type of a program, or of a function on arguments.

    Args:
      program, args: see `as_program`.
      allow_unknown: whether the result types that a text gives for undeclared primitives are trusted.

    Raises:
      JaxprTypeError: with a diagnostic for each fault.
    """
    found = as_program(program, *args)
    return checking.check(lambda: {"": found}, allow_unknown=allow_unknown)[""]


@for_the_function()
def lower(program: Any, *args: Any, name: str = "main") -> StableHLO:
    """A program, or a function on arguments, as StableHLO; see `as_program` and `driver.lower`."""
    found = _with_all_types(as_program(program, *args))
    with blaming_the_program(found):
        return lowering.lower(found, name)


@for_the_function()
def compile(
    program: Any, *args: Any, platform: str | None = None, devices: int | None = None
) -> Compiled:
    """A program, or a function on arguments, compiled by XLA; see `as_program` and `driver.compile`.

    The compiled program takes the leaves of the arguments, one by one.
    """
    found = _with_all_types(as_program(program, *args))
    with blaming_the_program(found):
        return compiling.compile(found, devices=devices, platform=platform)


def _with_all_types(program: Any) -> Any:
    """Return the program; raise JaxprTypeError, which names the arguments, where types are open."""
    if missing := missing_types(program.jaxpr if isinstance(program, ClosedJaxpr) else program):
        raise JaxprTypeError(missing)
    return program


@for_the_function(comparing.diff, programs=2)
def diff(a: Any, b: Any, *args: Any, context: int = 3, **counted: Any) -> Difference:
    """Whether two programs are equal up to names; if not, how they differ.

    Args:
      a, b: programs or functions; see `as_program`.
      args: the arguments on which a function among them is traced.
      context: lines to show around each change.
      counted: what counts as a difference: `ignore`, a sequence of "order", "names", "weak", "consts", "shapes" and
        "params:KEY"; `rtol` and `atol`, within which floats in literals and constants are equal (`atol + rtol * max(|x|, |y|)`).
    """
    if args and not any(map(is_function, (a, b))):
        fail(UsageError, "arguments are for functions, and both are programs", "argument-count")
    first, second = (as_program(x, *(args if is_function(x) else ())) for x in (a, b))
    return comparing.diff({"": first}, {"": second}, context=context, **counted)


@for_the_function()
def discharge(program: Any, *args: Any) -> ClosedJaxpr:
    """A program, or a function on arguments, without references; see `as_program`."""
    return discharging.discharge(as_program(program, *args))


# -- functions of a program and of what to do with it ------------------------------------------------


def of_program(f: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorate a function whose first argument is a program: it takes JAX's jaxprs too, and raises
    UsageError for anything else.

    An error that an ill-typed program causes becomes a JaxprTypeError.
    """

    @functools.wraps(f)
    def call(program: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(program, (ClosedJaxpr, Jaxpr)):
            if is_function(program):
                message = f"{f.__name__} takes a program, and this is a function"
                how = f"jaxprtool.{f.__name__}(jaxprtool.trace(f, *arguments), ...)"
                fail(UsageError, message, "not-a-program", help=how)
            program = as_program(program)
        with blaming_the_program(program):
            return f(program, *args, **kwargs)

    return call


def of_typed(f: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Do as `of_program`, for a function that needs the types of the arguments: JaxprTypeError
    names those that are open.
    """

    @functools.wraps(f)
    def call(program: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        _with_all_types(program)
        return f(program, *args, **kwargs)

    return of_program(call)


@functools.wraps(evaluating.jaxpr_as_fun)
def _as_fun(program: ClosedJaxpr) -> Callable[..., list[Any]]:
    f = evaluating.jaxpr_as_fun(program)

    @functools.wraps(f)
    def apply(*args: Any) -> list[Any]:
        with blaming_the_program(program):
            return f(*args)

    return apply


@functools.wraps(printing.format_jaxpr)
def _format(
    program: ClosedJaxpr,
    style: str = "jax",
    lossless: bool = False,
    width: int = 80,
    dialect: str = "",
) -> str:
    if style == "jax":
        program = dialects.sayable({"": program}, dialect)[""]
    return printing.format_jaxpr(program, style, lossless, width, dialect)


eval_jaxpr = of_program(evaluating.eval_jaxpr)
format_jaxpr = of_program(_format)
jaxpr_as_fun = of_program(_as_fun)
jvp_jaxpr = of_typed(jvps.jvp_jaxpr)
partial_eval_jaxpr = of_typed(partial_evals.partial_eval_jaxpr)
rewrite = of_program(rewriting.rewrite)
transpose_jaxpr = of_typed(transposing.transpose_jaxpr)
typecheck_jaxpr = of_program(checks.typecheck_jaxpr)
vmap_jaxpr = of_typed(batching.vmap_jaxpr)
with_consts = of_program(constants.with_consts)
