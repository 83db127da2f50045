"""Where a primitive, an element type or a type occurs in a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Place
from jaxprtool.analyses.tally import Nested, in_order, sites
from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.printable import one_line
from jaxprtool.syntax.types import read_type

__all__ = ["Occurrence", "is_word", "occurrences"]


class Occurrence(NamedTuple):
    """Where a word occurs.

    Attributes:
      place: the equation; None for an argument or a constant of the program.
      what: the argument or the constant, or "".
      ways: how many ways lead to the jaxpr of the equation: how often it is written, if each use is.
    """

    place: Place | None
    what: str = ""
    ways: int = 1

    def lines(self) -> list[str]:
        """For people: the place, and below it the line of the text."""
        if self.place is None:
            return [self.what]
        source = self.place.source
        where = f"{self.place.located()} {self.place}" + (f"  ({source})" if source else "")
        span = self.place.eqn.span
        if span is None:
            return [where]
        row, _ = span.source.position(span.start)
        return [where, f"    {one_line(span.source.line(row).strip())}"]


def is_word(word: str) -> bool:
    """Whether a word can occur in a program: a primitive, an element type, a type, or a part of the names of primitives."""
    return _predicate(word) is not None


def occurrences(program: ClosedJaxpr, word: str) -> list[Occurrence]:
    """Where a word occurs in a program and in the jaxprs that it runs, in the order of the program.

    Args:
      program: the program.
      word: the name of a primitive (`dot_general`); a word in the names of several (`callback`); an element type (`f64`) or a type
        (`f32[3,4]`) of arguments, constants, results of equations and literals.
    """
    predicate = _predicate(word) or (lambda eqn: eqn.primitive.name == word)
    found: list[Occurrence] = []
    of_type = _of_type(word)
    if of_type is not None:
        found += _binders(program, of_type)
    order = in_order(program.jaxpr)
    ways = _ways(order)
    for site in sites(order, None):
        for eqn in site.jaxpr.eqns:
            if predicate(eqn):
                found.append(Occurrence(site.place(eqn), "", ways[site.jaxpr]))
    return sorted(found, key=_position)


def _ways(order: dict[Jaxpr, Nested]) -> dict[Jaxpr, int]:
    """How many ways lead from the program to each jaxpr that it runs."""
    first, *_ = jaxprs = [*reversed(order)]
    found = {**dict.fromkeys(jaxprs, 0), first: 1}
    for jaxpr in jaxprs:
        for _, runs in order[jaxpr]:
            for run in runs:
                found[run.jaxpr.jaxpr] += found[jaxpr]
    return found


def _position(found: Occurrence) -> int:
    """Where it is in the text; -1 for arguments and constants, and where there is none."""
    span = None if found.place is None else found.place.eqn.span
    return -1 if span is None else span.start


def _predicate(word: str) -> Callable[[JaxprEqn], bool] | None:
    """What an equation has to be for a word to occur in it; None for a word that means nothing."""
    if word in PRIMITIVES:
        return lambda eqn: eqn.primitive.name == word
    of_type = _of_type(word)
    if of_type is not None:
        return lambda eqn: any(map(of_type, _avals(eqn)))
    if any(word in name.split("_") for name in PRIMITIVES):
        return lambda eqn: word in eqn.primitive.name.split("_")
    return None


def _of_type(word: str) -> Callable[[Aval], bool] | None:
    """Whether a type is that which a word means; None for a word that means none."""
    dtype = dtype_of(word)
    if dtype is not None:
        return lambda aval: getattr(aval, "dtype", None) == dtype
    try:
        aval = read_type(word)
    except ValueError:
        return None
    if not isinstance(aval, ShapedArray):
        return None
    text = str(aval)
    return lambda other: str(other.strong) == text


def _avals(eqn: JaxprEqn) -> Iterator[Aval]:
    yield from (v.aval for v in eqn.out_binders)
    yield from (x.aval for x in eqn.inputs if type(x) is Lit)


def _binders(program: ClosedJaxpr, of_type: Callable[[Aval], bool]) -> Iterator[Occurrence]:
    jaxpr, interface = program.jaxpr, program.interface
    names: list[Any] = [v.name for v in jaxpr.in_binders]
    if interface is not None and interface.n_in == len(names):
        names = interface.names()
    for what, binders, called in (
        ("constant", jaxpr.const_binders, [v.name for v in jaxpr.const_binders]),
        ("argument", jaxpr.in_binders, names),
    ):
        for i, (v, name) in enumerate(zip(binders, called, strict=True)):
            if of_type(v.aval):
                yield Occurrence(None, f"{what} {name or i}: {v.aval}")
