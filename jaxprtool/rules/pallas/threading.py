"""Kernels that are given the point of the grid as arguments, and do not ask for it."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.passing import CannotPass, Passing
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = ["with_grid"]

_ID, _SIZE = lax.program_id.primitive, lax.num_programs.primitive


def with_grid(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """A kernel as a function of the point of a grid of n axes, of its sizes, and of what it takes: all i32[].

    Raises:
      UnsupportedError: it asks for the point inside of an operation that cannot be given it.
    """

    def asked(eqn: JaxprEqn) -> int | None:
        if eqn.primitive not in (_ID, _SIZE):
            return None
        return eqn.params["axis"] + (0 if eqn.primitive is _ID else n)

    try:
        return Passing(2 * n, asked).jaxpr(closed)
    except CannotPass as e:
        (eqn,) = e.args
        message = f"pallas_call: {eqn.primitive} in its jaxpr asks for the point of the grid, and cannot be lowered"
        return fail(UnsupportedError, message, "unsupported-kernel", span=eqn.span)
