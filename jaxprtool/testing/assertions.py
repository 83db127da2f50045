"""What a test says of a program, and what it prints where that is not so."""

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

_SHOWN = 10  # matches that a message names


def assert_jaxpr(program: Any, *args: Any) -> JaxprAssertions:
    """Begin to say something of a program: `assert_jaxpr(f, x).has_no("f64").holds("count(mul) <= 2")`.

    Args:
      program: a program, JAX's or ours; the name of a file (`step.jaxpr`, `step.jaxpr#unknown`); or a function.
      args: of a function its arguments: pytrees of arrays, of numbers, of `jax.ShapeDtypeStruct`s. Only types matter.

    Raises:
      UsageError, JaxprParseError: there is no such program.
    """
    return JaxprAssertions(*_named(program, args))


def assert_jaxpr_equal(a: Any, b: Any, *args: Any, equivalent: bool = False) -> None:
    """Say that two programs are equal up to names, layout and dialect.

    Args:
      a, b: programs, names of files, or functions; see `assert_jaxpr`.
      args: the arguments of those that are functions.
      equivalent: whether it is enough that they have one normal form (see `jaxprtool equiv`), or constants that differ as much as
        rounding explains.

    Raises:
      AssertionError: they are not, with the difference.
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
    """A program, and what it is called."""
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
    """What a test says of a program. Each method returns the object, so that several can follow.

    `holds` takes expressions of `jaxprtool assert`; `has`, `has_no` and `count` are short for the most usual of them. They take patterns
    of the same language: the name of a primitive (`dot_general`), a word in the names of several (`callback`), an element type
    (`f64`), a type (`f32[3,4]`), or one with filters (`dot_general {scope~"attn"}`). A pattern is looked for in the program and in
    all jaxprs that it runs. A name that no primitive has is an error, since such an assertion would never fail.

    Attributes:
      program: the program.
      name: what it is called in messages.
    """

    def __init__(self, program: ClosedJaxpr, name: str):
        self.program, self.name = with_places(program, name), name

    def holds(self, *expressions: str, vs: Any = None, trips: int | None = None) -> Self:
        """Each of the expressions of `jaxprtool assert` is true of the program: `count(transpose) <= 2`, `peak <= 2GiB`.

        Args:
          expressions: see `jaxprtool assert --help`.
          vs: the program that is called B in them, as `assert_jaxpr` takes it without arguments.
          trips: the turns of a loop whose number of turns is not known.

        Raises:
          AssertionError: one is false, with what was found and where.
          UsageError: one cannot be read, names what no primitive is called, or asks for a figure that is not known.
        """
        __tracebackhide__ = True
        other = None if vs is None else _named(vs, ())[0]
        try:
            found = ask(self.program, expressions, vs=other, trips=trips, title=self.name)
        except JaxprToolError as e:
            raise e.with_traceback(None) from None  # a test shows its own line alone
        unknown = [w for v in found.verdicts for w in warnings_of(v.expression, v.warnings)]
        if unknown:
            raise UsageError([replace(w, severity="error") for w in unknown])
        if not found:
            lines = [line for v in found.failed for line in v.lines(_SHOWN)]
            raise AssertionError("\n".join([f"of {self.name}:", *lines]))
        return self

    def has(self, *patterns: str) -> Self:
        """Each of the patterns occurs: `some PATTERN`. Raises as `holds`."""
        __tracebackhide__ = True
        return self.holds(*(f"some {x}" for x in patterns))

    def has_no(self, *patterns: str) -> Self:
        """None of the patterns occurs: `no PATTERN`. Raises as `holds`."""
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
        """A pattern occurs so often: `count(PATTERN) == N`; what is in a nested jaxpr, as often as the jaxpr is used. Raises as `holds`."""
        __tracebackhide__ = True
        limits = {"==": exactly, ">=": at_least, "<=": at_most}
        said = [f"count({pattern}) {op} {n}" for op, n in limits.items() if n is not None]
        if not said:
            fail(UsageError, f"count({pattern!r}) says no number", "usage")
        return self.holds(*said)

    def within(self, budget: str, trips: int | None = None) -> Self:
        """The program costs no more than a budget: `peak=2GiB,flops=1e12`, as `jaxprtool cost --budget` has it.

        Args:
          budget: the limits.
          trips: the turns of a loop whose number of turns is not known.

        Raises:
          AssertionError: it costs more.
          UsageError: a figure that is not known, or no limit.
        """
        __tracebackhide__ = True
        found = cost(self.program, budget=budget, trips=trips)
        if found.over:
            lines = [f"{x.figure} {x.value:,.6g} > {x.limit:,.6g}" for x in found.over]
            raise AssertionError("\n".join([f"{self.name} is over its budget", *lines]))
        return self

    def equals(self, other: Any, *args: Any, equivalent: bool = False) -> Self:
        """The program equals another one; see `assert_jaxpr_equal`."""
        __tracebackhide__ = True
        assert_jaxpr_equal(self.program, other, *args, equivalent=equivalent)
        return self
