"""Places for the equations of programs that were read from no text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import jaxprs_in, map_jaxprs, map_programs
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr

__all__ = ["with_places"]


def with_places(program: ClosedJaxpr, name: str = "<program>") -> ClosedJaxpr:
    """The program with the place of each equation in its text, for one that was traced; one that was read has its own.

    Args:
      program: the program.
      name: what the text is called: the function, say.

    Returns:
      The same equations, whose spans are those of the lossless text of the program, as `jaxprtool trace` prints it. A
      program that was read is returned itself, and the same program gets the same places each time.
    """
    if all(e.span is not None for e in program.eqns):
        return program
    return _PLACED.of(program, lambda: _placed(program, name))


_PLACED = Memo[ClosedJaxpr]("with places")


def _placed(program: ClosedJaxpr, name: str) -> ClosedJaxpr:
    text = format_jaxpr(_without_values(program), lossless=True)
    return _located(program, parse(text, name), {})


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the values of its constants, which may be long and stand below it."""
    return map_programs(program, lambda c: c.replace(consts=[None] * len(c.consts)))


@deep
def _located(
    program: ClosedJaxpr, text: ClosedJaxpr, done: dict[ClosedJaxpr, ClosedJaxpr]
) -> ClosedJaxpr:
    """The program with the spans of the equations of its text; a jaxpr that occurs twice stays one object."""
    found = done.get(program)
    if found is None:
        eqns = [_at(a, b, done) for a, b in zip(program.eqns, text.eqns, strict=True)]
        found = program.replace(jaxpr=program.jaxpr.replace(eqns=eqns, span=text.jaxpr.span))
        done[program] = found
    return found


def _at(eqn: JaxprEqn, text: JaxprEqn, done: dict[ClosedJaxpr, ClosedJaxpr]) -> JaxprEqn:
    params: dict[str, Any] = {}
    for key, value in eqn.params.items():
        inner = jaxprs_in(text.params.get(key))
        params[key] = map_jaxprs(value, _next_located(inner, done))
    return eqn.replace(params=params, span=text.span)


def _next_located(texts: Iterator[ClosedJaxpr], done: dict[ClosedJaxpr, ClosedJaxpr]) -> Any:
    def located(program: ClosedJaxpr) -> ClosedJaxpr:
        text = next(texts, None)
        return program if text is None else _located(program, text, done)

    return located
