"""Insert `pvary` for operands that vary along different axes of a `shard_map`.

Here such operands may stand beside each other: the result varies along the axes of all of them. JAX
refuses the equation until `pvary` makes all operands vary alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jaxprtool.core.primitive import find_primitive
from jaxprtool.interpreters.check import varying_facts
from jaxprtool.ir.jaxpr import Atom, JaxprEqn, Var
from jaxprtool.ir.sharding import varying_axes, with_varying

__all__ = ["varying_alike"]


def varying_alike(eqns: Iterable[JaxprEqn]) -> Iterator[JaxprEqn]:
    """Yield the equations, with a `pvary` before one whose operands vary differently."""
    for eqn in eqns:
        along = dict.fromkeys(n for x in eqn.inputs for n in varying_axes(x.aval))
        if not along or len(eqn.inputs) == 1 or eqn.primitive in varying_facts:
            yield eqn
            continue
        made: dict[Atom, Var] = {}
        for x in eqn.inputs:
            missing = tuple(n for n in along if n not in varying_axes(x.aval))
            if missing and x not in made:
                made[x] = Var(with_varying(x.aval, along, tuple(along)))
                yield JaxprEqn(find_primitive("pvary"), [x], {"axes": missing}, [made[x]])
        yield eqn.replace(inputs=[made.get(x, x) for x in eqn.inputs]) if made else eqn
