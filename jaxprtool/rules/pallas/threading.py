"""Kernels that take the grid point as arguments instead of reading it by `program_id` equations."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.passing import CannotPass, Passing
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = ["with_grid"]

_ID, _SIZE = lax.program_id.primitive, lax.num_programs.primitive


def with_grid(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """Return a kernel as a function of the grid point (n numbers), the sizes of the grid (n
    numbers) and its own arguments. The numbers are i32[].

    Raises:
      UnsupportedError: a `program_id` is inside an equation to whose jaxpr no numbers can be
        passed.
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
