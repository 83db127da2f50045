"""Functions of Python that a program calls, given back to the program that was read from its text."""

from __future__ import annotations

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns, pair_jaxprs, with_eqns
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
        eqns = [
            text.replace(params=pair_jaxprs(eqn, text, lambda p, r: _with_params(r, p, done)))
            for text, eqn in pairs
        ]
        found = done[read] = with_eqns(read, eqns)
    return found
