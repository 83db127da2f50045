"""Which results take the memory of arguments that a call has donated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit

__all__ = ["aliased_results"]


def aliased_results(closed: ClosedJaxpr) -> Mapping[Any, int]:
    """Return for each argument that the program's call donates the position of the result that takes its memory.

    As in JAX, a donation counts only where the whole program is one call; inside of another jit it
    has no effect. As in JAX, each donated argument goes to the first result of its shape and
    element type that no other argument went to.
    """
    if len(closed.eqns) != 1:
        return {}
    (call,) = closed.eqns
    flags = call.params.get("donated_invars") or ()
    outs = closed.jaxpr.outs
    made = {*call.out_binders}
    left = [i for i, x in enumerate(outs) if type(x) is not Lit and x in made]
    arguments = {*closed.jaxpr.in_binders} - {x for x in outs if type(x) is not Lit}
    found: dict[Any, int] = {}
    for x, flag in zip(call.inputs, flags, strict=False):
        if flag is not True or x not in arguments or call.inputs.count(x) > 1:
            continue
        i = next((i for i in left if _room(outs[i].aval) == _room(x.aval)), None)
        if i is not None:
            left.remove(i)
            found[x] = i
    return found


def _room(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if isinstance(aval, ShapedArray) else aval
