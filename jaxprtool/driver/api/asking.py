"""Assertions about a program, and searches for patterns in it, as Python functions."""

from __future__ import annotations

from typing import Any

from jaxprtool.analyses.asking.verdict import Found, Verdicts
from jaxprtool.driver import asking as driver
from jaxprtool.driver.api.programs import as_program
from jaxprtool.driver.asking import Assertion

__all__ = ["assert_that", "grep", "holds"]


def holds(
    program: Any,
    *expressions: str | Assertion,
    args: tuple[Any, ...] = (),
    vs: Any = None,
    **how: Any,
) -> Verdicts:
    """Whether expressions are true of a program, or of a function on arguments.

    Args:
      program: see `jaxprtool.trace`.
      expressions: the expressions (see `jaxprtool assert --help`); an `Assertion` is one that was
        read before.
      args: for a function its arguments.
      vs: the program that is called B, or a function of the same arguments.
      how: keywords of `driver.asking.ask`: `trips`, `top`, `stage`.

    Returns:
      An object that is true where all are. Each of its `verdicts` has `holds`, `count`, `values`,
        `matches` (with `place`) and `warnings`; `str` of it is what `jaxprtool assert` prints,
        `json()` the document.

    Raises:
      JaxprTypeError, UsageError: as `driver.asking.ask`.
    """
    other = None if vs is None else as_program(vs, *(args if callable(vs) else ()))
    title = getattr(program, "__name__", "<program>")
    return driver.ask(as_program(program, *args), expressions, vs=other, title=title, **how)


def assert_that(
    program: Any, *expressions: str | Assertion, args: tuple[Any, ...] = (), **how: Any
) -> Verdicts:
    """Do as `holds`, and raise AssertionError where an expression is false, with what was found and where.

    Args:
      program, expressions, args: as for `holds`.
      how: `vs`, and keywords of `driver.asking.ask`.
    """
    found = holds(program, *expressions, args=args, **how)
    if not found:
        raise AssertionError("\n".join(line for v in found.failed for line in v.lines(found.top)))
    return found


def grep(pattern: str, program: Any, *args: Any, top: int | None = None) -> Found:
    """Return the matches of a pattern in a program, or in a function on arguments.

    Args:
      pattern: a pattern of equations, or a type of values (see `jaxprtool assert --help`).
      program, args: see `jaxprtool.trace`.
      top: the largest number of matches to find; None: all.

    Returns:
      An object with `matches` (`place`, `text`, `times`), `count` and `warnings`, true where
        something matches.

    Raises:
      JaxprTypeError, UsageError: as `driver.asking.grep`.
    """
    title = getattr(program, "__name__", "<program>")
    return driver.grep(pattern, [(title, as_program(program, *args))], top=top)
