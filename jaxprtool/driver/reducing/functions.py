"""Functions of Python that a program calls, given back to the program that was read from its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns, jaxprs_in, map_jaxprs, with_eqns
from jaxprtool.rules.effects import calls_absent

__all__ = ["with_functions"]


def with_functions(read: ClosedJaxpr, program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program that was read from the text of another one, with the functions of that one, which no text holds.

    Args:
      read: the program that was read.
      program: the program whose text it is.
    """
    if not any(map(calls_absent, all_eqns(read.jaxpr))):
        return read
    return _with_params(read, program, {})


@deep
def _with_params(
    read: ClosedJaxpr, program: ClosedJaxpr, done: dict[ClosedJaxpr, ClosedJaxpr]
) -> ClosedJaxpr:
    """Return the program that was read with the params of the other one; their inner jaxprs are those that were read."""
    found = done.get(read)
    if found is None:
        pairs = zip(read.eqns, program.eqns, strict=True)
        eqns = [text.replace(params=_params_of(eqn, text, done)) for text, eqn in pairs]
        found = done[read] = with_eqns(read, eqns)
    return found


def _params_of(
    eqn: JaxprEqn, text: JaxprEqn, done: dict[ClosedJaxpr, ClosedJaxpr]
) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for key, value in eqn.params.items():
        inner = jaxprs_in(text.params.get(key))

        def read(program: ClosedJaxpr, inner: Iterator[ClosedJaxpr] = inner) -> ClosedJaxpr:
            found = next(inner, None)
            return program if found is None else _with_params(found, program, done)

        params[key] = map_jaxprs(value, read)
    return params
