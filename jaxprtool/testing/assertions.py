"""What a test says of a program, and what it prints where that is not so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from jaxprtool.analyses.occurrences import Occurrence, is_word, occurrences
from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.driver import diff as comparing
from jaxprtool.driver.api import as_program, is_function
from jaxprtool.driver.changed import DIFFERENT, kind_of_change
from jaxprtool.driver.constants import load_constants
from jaxprtool.driver.cost import cost
from jaxprtool.driver.files import decode, load, read_bytes, split_selector, the_one
from jaxprtool.driver.places import with_places
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.synonyms import close_names

__all__ = ["JaxprAssertions", "assert_jaxpr", "assert_jaxpr_equal"]

_SHOWN = 10  # places that a message names


def assert_jaxpr(program: Any, *args: Any) -> JaxprAssertions:
    """Begin to say something of a program: `assert_jaxpr(f, x).has_no("f64").count("mul", 2)`.

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

    A word is the name of a primitive (`dot_general`), a word in the names of several (`callback`, `debug`), an element type (`f64`) or a
    type (`f32[3,4]`). It is looked for in the program and in all jaxprs that it runs. A type is that of an argument, a
    constant, a result of an equation or a literal.

    Attributes:
      program: the program.
      name: what it is called in messages.
    """

    def __init__(self, program: ClosedJaxpr, name: str):
        self.program, self.name = with_places(program, name), name

    def has(self, *words: str) -> Self:
        """Each of the words occurs. Raises AssertionError; UsageError for a word that means nothing."""
        __tracebackhide__ = True
        for word in words:
            if not self._found(word):
                raise AssertionError(f"{self.name} has no {word}\n{self._text()}")
        return self

    def has_no(self, *words: str) -> Self:
        """None of the words occurs. Raises as `has`."""
        __tracebackhide__ = True
        for word in words:
            found = self._found(word)
            if found:
                raise AssertionError(self._told(f"{self.name} has {word}", found))
        return self

    def count(
        self,
        word: str,
        exactly: int | None = None,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
    ) -> Self:
        """A word occurs so often; an equation of a nested jaxpr counts as often as the jaxpr is used. Raises as `has`."""
        __tracebackhide__ = True
        if exactly is at_least is at_most is None:
            fail(UsageError, f"count({word!r}) says no number", "usage")
        found = self._found(word)
        n = sum(x.ways for x in found)
        for limit, wrong, said in (
            (exactly, exactly is not None and n != exactly, "exactly"),
            (at_least, at_least is not None and n < at_least, "at least"),
            (at_most, at_most is not None and n > at_most, "at most"),
        ):
            if wrong:
                what = f"{self.name} has {n} {word}, and {said} {limit} should be there"
                raise AssertionError(self._told(what, found))
        return self

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

    def _found(self, word: str) -> list[Occurrence]:
        found = occurrences(self.program, word)
        if not found and not is_word(word):
            near = close_names(word, PRIMITIVES)
            help = f"did you mean {near[0]}?" if near else "dot_general, callback, f64, f32[3,4]"
            message = f"{word!r} is no primitive, no type, and no word in the names of primitives"
            fail(UsageError, message, "no-such-word", help=help)
        return found

    def _told(self, what: str, found: Sequence[Occurrence]) -> str:
        lines = [line for x in found[:_SHOWN] for line in x.lines()]
        more = [f"... and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "\n".join([what, *(f"  {line}" for line in [*lines, *more])])

    def _text(self) -> str:
        lines = str(self.program).splitlines()
        more = [f"... and {len(lines) - 40} more lines"] if len(lines) > 40 else []
        return "\n".join(f"  {line}" for line in [*lines[:40], *more])
