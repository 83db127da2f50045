"""Units, `*`: values of no content that releases to 0.3.9 pass around (tangents of what has none, say). They are taken out.

b:f32[] _:* = xla_call[call_jaxpr={ lambda ; c:f32[] d:*. let e:f32[] = sin c in (e, *) } name=f] a *
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxprtool.core.inner import inner_arguments
from jaxprtool.ir.avals import OpaqueType
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.syntax.infer import FAULTS, inner_jaxprs
from jaxprtool.syntax.types import UNTYPED

__all__ = ["UNIT", "take_units_out"]

UNIT = Lit(None, OpaqueType("*"))
_COUNTS = (("num_consts", "num_carry"), ("cond_nconsts", "body_nconsts"))  # of operands, in order
_EACH = ("donated_invars", "in_axes", "linear", "mapped_invars")  # an entry for each operand


def take_units_out(programs: Sequence[ClosedJaxpr]) -> None:
    """Take the units out of programs that were just read, in place: operands, results and the binders of both."""
    units = _Units()
    for closed in programs:
        units.jaxpr(closed.jaxpr, ())


class _Units:
    """The places of the units among the arguments and the results of each jaxpr, and how many arguments it had."""

    def __init__(self) -> None:
        self.found: dict[Jaxpr, tuple[int, list[int]]] = {}

    def jaxpr(self, jaxpr: Jaxpr, places: Collection[int]) -> list[int]:
        """Take units out of a jaxpr whose arguments at some places are such; returns the places among its results."""
        if jaxpr in self.found:
            return self.found[jaxpr][1]
        binders = jaxpr.in_binders
        units = {v for i, v in enumerate(binders) if i in places or _is_unit(v, ())}
        eqns = [eqn for eqn in jaxpr.eqns if self.keeps(eqn, units)]
        dropped = [i for i, x in enumerate(jaxpr.outs) if _is_unit(x, units)]
        self.found[jaxpr] = len(binders), dropped
        outs = [x for x in jaxpr.outs if not _is_unit(x, units)]
        kept = tuple([v for v in binders if v not in units])
        amend(jaxpr, in_binders=kept, eqns=tuple(eqns), outs=tuple(outs))
        return dropped

    def keeps(self, eqn: JaxprEqn, units: set[Var]) -> bool:
        """Take units out of an equation; whether anything of it is left."""
        places = [i for i, x in enumerate(eqn.inputs) if _is_unit(x, units)]
        results = {i for i, v in enumerate(eqn.out_binders) if _is_unit(v, ())}
        inner = inner_jaxprs(eqn)
        if inner:
            results.update(self.inside(eqn, inner, places))
        elif places and len(places) == len(eqn.inputs):
            results.update(i for i, v in enumerate(eqn.out_binders) if v.aval is UNTYPED)
        if not places and not results:
            return True
        units.update(v for i, v in enumerate(eqn.out_binders) if i in results)
        binders = [v for i, v in enumerate(eqn.out_binders) if i not in results]
        inputs = [x for i, x in enumerate(eqn.inputs) if i not in places]
        params = _fewer(eqn.params, places, len(eqn.inputs))
        amend(
            eqn, inputs=tuple(inputs), out_binders=tuple(binders), params=type(eqn.params)(params)
        )
        return bool(binders) or not results

    def inside(
        self, eqn: JaxprEqn, inner: Sequence[ClosedJaxpr], places: Sequence[int]
    ) -> list[int]:
        """Take units out of the jaxprs of an equation; returns their places among its results."""
        try:  # what each jaxpr takes, as places among the operands
            taken = inner_arguments(eqn.primitive, range(len(eqn.inputs)), eqn.params)  # type: ignore[arg-type]
        except FAULTS:
            taken = []
        positions = {closed.jaxpr: list(operands) for closed, operands in taken}
        found: list[int] = []
        for closed in inner:
            count = self.found.get(closed.jaxpr, (0, []))
            n_out = len(closed.jaxpr.outs) + len(count[1])
            own = positions.get(closed.jaxpr, [])
            dropped = self.jaxpr(closed.jaxpr, [j for j, i in enumerate(own) if i in places])
            if n_out == len(eqn.out_binders):
                found += dropped
        return found


def _is_unit(x: Any, units: Collection[Var]) -> bool:
    return x is UNIT or x.aval == UNIT.aval or (bool(units) and type(x) is not Lit and x in units)


def _fewer(params: dict[str, Any], places: Sequence[int], count: int) -> dict[str, Any]:
    """The params of an equation without its operands at some places."""
    new = dict(params)
    for names in _COUNTS:
        start = 0
        for name in names:
            size = params.get(name)
            if isinstance(size, int):
                new[name] = size - sum(start <= i < start + size for i in places)
                start += size
    for name in _EACH:
        value: tuple[Any, ...] = params[name] if isinstance(params.get(name), tuple) else ()
        if len(value) == count:
            new[name] = tuple([v for i, v in enumerate(value) if i not in places])
    return new
