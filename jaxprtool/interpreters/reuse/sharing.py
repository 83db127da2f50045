"""Keep jaxprs that a program uses several times shared when the program is transformed.

Each transformation is applied once for each jaxpr object and each way to do it (which arguments
have tangents, are unknown, have which batch axis ...), and its result is cached on the object
(`ir.memo`), so that the same jaxpr gives the same object again.

# Note [In place or called]

Several rules inline the body of a call, as JAX does: derivative rules of custom functions, the
known part of a rematerialised function, branches that are selected from. With n levels that each
use the one below twice, that would make 2^n copies. So a body that is much larger written out than
as a text is not inlined: it is called.

# Note [Kept or computed again]

The second part of a split program reads values of the first part, its residuals. Each call has
residuals of its own: with n levels that each call the one below twice there are 2^n, and the calls
of the parts would have as many operands. So where the residuals of such a body would be many, they
are not saved. The second part takes the arguments of the body and computes the values again, as in
a `remat2`. Each level then saves a bounded number of values.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool import ops as lax
from jaxprtool.interpreters.dce import jaxpr_has_effects
from jaxprtool.interpreters.evaluate import apply_eqns
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Value, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import count_eqns, shared_size

__all__ = ["apply_jaxpr", "computes_again", "multiplies", "rematerialised"]

# A body of at most so many equations is put in place; a larger one is too, unless that makes it so many times larger.
_SMALL, _FACTOR = 64, 4

# A body that `multiplies` saves at most so many residuals.
_MAX_RESIDUALS = 64


def multiplies(closed: ClosedJaxpr) -> bool:
    """Whether a jaxpr becomes much larger when the jaxprs inside it are written out at each use."""
    written_out = count_eqns(closed.jaxpr)
    if written_out <= _SMALL:
        return False
    return written_out > _FACTOR * shared_size(closed.jaxpr)


def computes_again(closed: ClosedJaxpr, n_residuals: int) -> bool:
    """Whether a jaxpr with so many residuals is computed again instead of saving them (Note [Kept
    or computed again]).
    """
    return (
        n_residuals > _MAX_RESIDUALS and multiplies(closed) and not jaxpr_has_effects(closed.jaxpr)
    )


def rematerialised(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr of one `remat2` equation that applies this one, so that its second part
    computes everything again.
    """

    def make() -> ClosedJaxpr:
        op = lax.remat_call.primitive
        ins, outs = [*map(Var, closed.in_avals)], [*map(Var, closed.out_avals)]
        params = {**op.defaults, "jaxpr": closed, "prevent_cse": False}
        return ClosedJaxpr(Jaxpr(ins, [JaxprEqn(op, [*ins], params, outs)], [*outs]))

    return _REMATERIALISED.of(closed, make)


_REMATERIALISED = Memo[ClosedJaxpr]("rematerialised")


def apply_jaxpr(
    closed: ClosedJaxpr, args: Sequence[Value], of: ClosedJaxpr | None = None
) -> list[Value]:
    """Apply a jaxpr in the current trace: its equations one by one, or a call of it (Note [In place or called]).

    Args:
      of: the jaxpr from which it was derived, where that one may show more sharing.
    """
    if multiplies(closed if of is None else of):
        return lax.jit_call(*args, jaxpr=closed)
    return apply_eqns(closed, args)
