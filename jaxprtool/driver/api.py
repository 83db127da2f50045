"""Verbs as functions of Python: each takes a program, or a function and arguments to trace it on."""

from __future__ import annotations

from typing import Any

from jaxprtool.driver import check as checking
from jaxprtool.driver import compile as compiling
from jaxprtool.driver import diff as comparing
from jaxprtool.driver import lower as lowering
from jaxprtool.driver import trace as tracing
from jaxprtool.driver.check import Signature
from jaxprtool.driver.compile import Compiled
from jaxprtool.driver.diff import Difference
from jaxprtool.interpreters import discharge as discharging
from jaxprtool.interpreters.lower import StableHLO
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr

__all__ = ["as_program", "check", "compile", "diff", "discharge", "lower", "trace"]


def as_program(program: Any, *args: Any) -> ClosedJaxpr:
    """A program, whatever it is given as.

    Args:
      program: a `ClosedJaxpr` or `Jaxpr`, JAX's or ours; or a function, written with JAX, `jaxprtool.lax` or NumPy.
      args: for a function its arguments: pytrees of arrays, numbers, keys, JAX's `ShapeDtypeStruct`s or
        `ShapedArray`s. Only their types matter.

    Raises:
      UsageError: it is none of these; arguments are given to a program; the function raises.
    """
    if callable(program) and not _is_of_jax(program):
        return tracing.trace(program, args)
    if args:
        message = f"{type(program).__name__} is a program, and takes no arguments here"
        fail(UsageError, message, "argument-count", help="arguments are for functions")
    if isinstance(program, ClosedJaxpr):
        return program
    if isinstance(program, Jaxpr):
        return ClosedJaxpr(program, [None] * len(program.const_binders))
    if _is_of_jax(program):
        from jaxprtool.backends.jax.from_jax import from_jax  # noqa: PLC0415 (gateway)

        return from_jax(program)
    fail(
        UsageError,
        f"neither a program nor a function: {type(program).__name__}",
        "not-a-program",
        help="jaxprtool.parse(text) reads a text",
    )


def _is_of_jax(x: Any) -> bool:
    """Whether an object is a jaxpr of JAX's, which is not imported to say so."""
    return type(x).__name__ in ("ClosedJaxpr", "Jaxpr") and type(x).__module__.startswith("jax.")


def trace(f: Any, *args: Any) -> ClosedJaxpr:
    """The program of a function on arguments; see `as_program`."""
    return as_program(f, *args)


def check(program: Any, *args: Any, allow_unknown: bool = False) -> Signature:
    """The type of a program, or of a function on arguments.

    Args:
      program, args: see `as_program`.
      allow_unknown: whether primitives that nobody declared are taken at their word.

    Raises:
      JaxprTypeError: with a diagnostic for each fault.
    """
    found = as_program(program, *args)
    return checking.check(lambda: {"": found}, allow_unknown=allow_unknown)[""]


def lower(program: Any, *args: Any, name: str = "main") -> StableHLO:
    """A program, or a function on arguments, as StableHLO; see `as_program` and `driver.lower`."""
    return lowering.lower(as_program(program, *args), name)


def compile(program: Any, *args: Any) -> Compiled:
    """A program, or a function on arguments, compiled by XLA; see `as_program` and `driver.compile`.

    What comes back takes the leaves of the arguments, one by one.
    """
    return compiling.compile(as_program(program, *args))


def diff(a: Any, b: Any, *args: Any, context: int = 3) -> Difference:
    """Whether two programs are equal up to names; if not, a unified diff.

    Args:
      a, b: programs or functions; see `as_program`.
      args: the arguments for what of them is a function.
      context: lines to show around each change.
    """
    if args and not any(callable(x) and not _is_of_jax(x) for x in (a, b)):
        fail(UsageError, "arguments are for functions, and both are programs", "argument-count")
    first, second = (
        as_program(x, *(args if callable(x) and not _is_of_jax(x) else ())) for x in (a, b)
    )
    return comparing.diff({"": first}, {"": second}, context=context)


def discharge(program: Any, *args: Any) -> ClosedJaxpr:
    """A program, or a function on arguments, without references; see `as_program`."""
    return discharging.discharge(as_program(program, *args))
