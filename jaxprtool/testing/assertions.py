"""Assertions about programs, with messages that show where a program violates them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from jaxprtool.driver import diff as comparing
from jaxprtool.driver.api.programs import as_program, is_function
from jaxprtool.driver.asking import ask, warnings_of
from jaxprtool.driver.cost import cost
from jaxprtool.driver.places import with_places
from jaxprtool.driver.projects.changed import DIFFERENT, kind_of_change
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.storage.files import decode, load, read_bytes, split_selector, the_one
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["JaxprAssertions", "assert_jaxpr", "assert_jaxpr_equal"]

_SHOWN = 10  # the number of matches that a message lists


def assert_jaxpr(program: Any, *args: Any) -> JaxprAssertions:
    """Return an object with the assertions about a program: `assert_jaxpr(f,
    x).has_no("f64").holds("count(mul) <= 2")`.

    Args:
      program: a program of JAX or of this package; the name of a file (`step.jaxpr`,
        `step.jaxpr#unknown`); or a function.
      args: the arguments of a function: pytrees of arrays, numbers or `jax.ShapeDtypeStruct`s. Only
        their types matter.

    Raises:
      UsageError, JaxprParseError: there is no such program, or its text cannot be parsed.
    """
    return JaxprAssertions(*_named(program, args))


def assert_jaxpr_equal(a: Any, b: Any, *args: Any, equivalent: bool = False) -> None:
    """Assert that two programs are equal up to names, layout and dialect.

    Args:
      a, b: programs, names of files, or functions; see `assert_jaxpr`.
      args: the arguments for a and b where they are functions.
      equivalent: whether programs with the same normal form (see `jaxprtool equiv`), or whose
        constants differ by rounding only, count as equal.

    Raises:
      AssertionError: they are not equal; the message shows the difference.
    """
    __tracebackhide__ = True
    (one, name_a), (other, name_b) = (_named(x, args if is_function(x) else ()) for x in (a, b))
    if name_a == name_b:
        name_a, name_b = f"{name_a} (a)", f"{name_b} (b)"
    sides = ({"": one}, {"": other})
    found = comparing.diff(*sides, name_a, name_b)
    if found.equal or (equivalent and kind_of_change(*sides).word != DIFFERENT):
        return
    raise AssertionError("\n".join([f"programs differ: {found.summary}", *found.lines]))


def _named(program: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, str]:
    """Return a program and its name for messages."""
    if isinstance(program, (str, os.PathLike)):
        if args:
            fail(UsageError, "arguments are for functions, and this is a file", "argument-count")
        path = os.fspath(program)
        file, selector = split_selector(str(path))
        found = the_one(load(decode(*read_bytes(file)), file, selector), file)
        return load_constants(found), str(path)
    name = getattr(program, "__name__", "program") if is_function(program) else "program"
    return as_program(program, *args), name


class JaxprAssertions:
    """Assertions about a program. Each method returns the object, so that calls can be chained.

    `holds` takes expressions of `jaxprtool assert`; `has`, `has_no` and `count` are abbreviations
    of the most common ones. They take patterns of the same language: the name of a primitive
    (`dot_general`), a word in the names of several (`callback`), an element type (`f64`), a type
    (`f32[3,4]`), or one of these with filters (`dot_general {scope~"attn"}`). A pattern is searched
    in the program and in all nested jaxprs. A name that no primitive has is an error, since such an
    assertion would never fail.

    Attributes:
      program: the program.
      name: its name in messages.
    """

    def __init__(self, program: ClosedJaxpr, name: str):
        self.program, self.name = with_places(program, name), name

    def holds(self, *expressions: str, vs: Any = None, trips: int | None = None) -> Self:
        """Assert that expressions of `jaxprtool assert` are true of the program: `count(transpose)
        <= 2`, `peak <= 2GiB`.

        Args:
          expressions: see `jaxprtool assert --help`.
          vs: the program B of the expressions: a program or the name of a file.
          trips: the number of iterations of loops for which it is unknown.

        Raises:
          AssertionError: an expression is false; the message shows what was found, and where.
          UsageError: an expression cannot be parsed, names no primitive, or needs a figure that is
            unknown.
        """
        __tracebackhide__ = True
        other = None if vs is None else _named(vs, ())[0]
        try:
            found = ask(self.program, expressions, vs=other, trips=trips, title=self.name)
        except JaxprToolError as e:
            raise e.with_traceback(None) from None  # so that a test shows only its own line
        unknown = [w for v in found.verdicts for w in warnings_of(v.expression, v.warnings)]
        if unknown:
            raise UsageError([replace(w, severity="error") for w in unknown])
        if not found:
            lines = [line for v in found.failed for line in v.lines(_SHOWN)]
            raise AssertionError("\n".join([f"of {self.name}:", *lines]))
        return self

    def has(self, *patterns: str) -> Self:
        """Assert that each of the patterns occurs: `some PATTERN`. Raises as `holds`."""
        __tracebackhide__ = True
        return self.holds(*(f"some {x}" for x in patterns))

    def has_no(self, *patterns: str) -> Self:
        """Assert that none of the patterns occurs: `no PATTERN`. Raises as `holds`."""
        __tracebackhide__ = True
        return self.holds(*(f"no {x}" for x in patterns))

    def count(
        self,
        pattern: str,
        exactly: int | None = None,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
    ) -> Self:
        """Assert how often a pattern occurs: `count(PATTERN) == N`. Raises as `holds`.

        A match in a nested jaxpr counts once for each use of the jaxpr.
        """
        __tracebackhide__ = True
        limits = {"==": exactly, ">=": at_least, "<=": at_most}
        said = [f"count({pattern}) {op} {n}" for op, n in limits.items() if n is not None]
        if not said:
            fail(UsageError, f"count({pattern!r}) says no number", "usage")
        return self.holds(*said)

    def within(self, budget: str, trips: int | None = None) -> Self:
        """Assert that the program costs at most a budget, written as for `jaxprtool cost --budget`:
        `peak=2GiB,flops=1e12`.

        Args:
          budget: the limits.
          trips: the number of iterations of loops for which it is unknown.

        Raises:
          AssertionError: it costs more.
          UsageError: the budget has no limit, or names a figure that is unknown.
        """
        __tracebackhide__ = True
        found = cost(self.program, budget=budget, trips=trips)
        if found.over:
            lines = [f"{x.figure} {x.value:,.6g} > {x.limit:,.6g}" for x in found.over]
            raise AssertionError("\n".join([f"{self.name} is over its budget", *lines]))
        return self

    def equals(self, other: Any, *args: Any, equivalent: bool = False) -> Self:
        """Assert that the program equals another one; see `assert_jaxpr_equal`."""
        __tracebackhide__ = True
        assert_jaxpr_equal(self.program, other, *args, equivalent=equivalent)
        return self
