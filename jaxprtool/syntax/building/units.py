"""Remove units, `*`: values without content that releases to 0.3.9 pass around (tangents of integers, say).

b:f32[] _:* = xla_call[call_jaxpr={ lambda ; c:f32[] d:*. let e:f32[] = sin c in (e, *) } name=f] a *
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.inner import inner_arguments
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Params, Var
from jaxprtool.ir.primitive import ReadParams
from jaxprtool.syntax.infer import FAULTS, inner_jaxprs
from jaxprtool.syntax.releases.units import (
    UNIT,
    Removed,
    RemovedOfEquation,
    RemovedOfProgram,
    removed,
)
from jaxprtool.syntax.types import UNTYPED

__all__ = ["take_units_out"]

_COUNTS = (("num_consts", "num_carry"), ("cond_nconsts", "body_nconsts"))  # of operands, in order
_EACH = ("donated_invars", "in_axes", "linear", "mapped_invars")  # an entry for each operand
_EACH_RESULT = ("out_axes",)


class Units(NamedTuple):
    """The findings of `take_units_out`.

    Attributes:
      read: the presumed units that are read.
      opened: whether there are binders that were printed with the type of a unit, and whose type is
        unknown.
    """

    read: list[Lit]
    opened: bool


def take_units_out(programs: Sequence[ClosedJaxpr], presumed: Collection[Lit] = ()) -> Units:
    """Remove the units from programs that were just read, in place: operands, results and the binders of both.

    Args:
      programs: the programs.
      presumed: results of jaxprs that are units if nothing reads them.
    """
    units = _Units()
    for closed in programs:
        units.jaxpr(closed.jaxpr, ())
    if units.of_eqns or any(x for was in units.places.values() for x in was[:3]):
        found = RemovedOfProgram(units.places, units.of_eqns)
        for closed in programs:
            removed.keep(closed.jaxpr, found)
    return Units([x for x in presumed if x not in units.unread], units.opened)


class _Units:
    """Removes the units from jaxprs.

    Attributes:
      found: for each jaxpr the number of arguments it had, and the positions of the units among its
        results.
      outs: the results that each jaxpr had.
      unread: those of them that the equation around the jaxpr drops.
      opened: whether there are binders that were printed as units, and are none.
      places, of_eqns: what was removed from jaxprs and from equations.
    """

    def __init__(self) -> None:
        self.found: dict[Jaxpr, tuple[int, list[int]]] = {}
        self.outs: dict[Jaxpr, tuple[Any, ...]] = {}  # the results that each had
        self.unread: set[Any] = set()  # those of them that the equation around it drops
        self.places: dict[Jaxpr, Removed] = {}
        self.of_eqns: dict[JaxprEqn, RemovedOfEquation] = {}
        self.opened = False  # whether there are binders whose type is not a unit's

    def jaxpr(self, jaxpr: Jaxpr, places: Collection[int]) -> list[int]:
        """Remove the units from a jaxpr whose arguments at some positions are units; return the
        positions among its results.
        """
        if jaxpr in self.found:
            return self.found[jaxpr][1]
        binders = jaxpr.in_binders
        units = {v for i, v in enumerate(binders) if i in places or _is_unit(v, ())}
        eqns = [eqn for eqn in jaxpr.eqns if self.keeps(eqn, units)]
        dropped = [i for i, x in enumerate(jaxpr.outs) if _is_unit(x, units)]
        self.found[jaxpr] = len(binders), dropped
        self.outs[jaxpr] = jaxpr.outs
        outs = [x for x in jaxpr.outs if not _is_unit(x, units)]
        kept = tuple([v for v in binders if v not in units])
        self.places[jaxpr] = Removed(
            [(i, v) for i, v in enumerate(binders) if v in units],
            [(i, e) for i, e in enumerate(jaxpr.eqns) if not any(e is x for x in eqns)]
            if len(eqns) < len(jaxpr.eqns)
            else [],
            [(i, jaxpr.outs[i]) for i in dropped],
            tuple(eqns),
        )
        amend(jaxpr, in_binders=kept, eqns=tuple(eqns), outs=tuple(outs))
        return dropped

    def keeps(self, eqn: JaxprEqn, units: set[Var]) -> bool:
        """Remove the units from an equation; return whether anything of it is left."""
        places = [i for i, x in enumerate(eqn.inputs) if _is_unit(x, units)]
        results = {i for i, v in enumerate(eqn.out_binders) if _is_unit(v, ())}
        inner = inner_jaxprs(eqn)
        if inner:
            told = self.inside(eqn, inner, places)
            results = self.open_drops(eqn, results, told) if told is not None else results
        elif places and len(places) == len(eqn.inputs):
            results.update(i for i, v in enumerate(eqn.out_binders) if v.aval is UNTYPED)
        elif eqn.primitive.known:
            results = self.open_drops(eqn, results, ())
        if not places and not results:
            return True
        units.update(v for i, v in enumerate(eqn.out_binders) if i in results)
        binders = [v for i, v in enumerate(eqn.out_binders) if i not in results]
        inputs = [x for i, x in enumerate(eqn.inputs) if i not in places]
        params = _fewer(_fewer_operands(eqn.params, places), _EACH, places, len(eqn.inputs))
        params = _fewer(params, _EACH_RESULT, results, len(eqn.out_binders))
        self.of_eqns[eqn] = RemovedOfEquation(
            [(i, eqn.inputs[i]) for i in places],
            [(i, eqn.out_binders[i]) for i in sorted(results)],
            {k: v for k, v in eqn.params.items() if params[k] is not v},
            eqn.params if isinstance(eqn.params, ReadParams) else None,
        )
        amend(eqn, inputs=tuple(inputs), out_binders=tuple(binders), params=Params(params))
        return bool(binders) or not results

    def open_drops(
        self, eqn: JaxprEqn, results: Collection[int], told: Collection[int]
    ) -> set[int]:
        """Return the positions of the units among the results of an equation.

        `results` are those printed with the type of a unit, `told` those known to be units. JAX
        0.2.22 prints `_:*` for any result that nothing reads, so the types of dropped results that
        are not in `told` are unknown.
        """
        for i in results:
            v = eqn.out_binders[i]
            if i not in told and isinstance(v, DropVar):
                amend(v, aval=UNTYPED)
                self.opened = True
        return {i for i in results if eqn.out_binders[i].aval is not UNTYPED} | {*told}

    def inside(
        self, eqn: JaxprEqn, inner: Sequence[ClosedJaxpr], places: Sequence[int]
    ) -> list[int] | None:
        """Remove the units from the jaxprs of an equation; return their positions among its
        results, None where they are not known.
        """
        try:  # what each jaxpr takes, as places among the operands
            taken = inner_arguments(eqn.primitive, range(len(eqn.inputs)), eqn.params)  # type: ignore[arg-type]
        except FAULTS:
            taken = []
        positions = {closed.jaxpr: list(operands) for closed, operands in taken}
        found: list[int] | None = None
        for closed in inner:
            count = self.found.get(closed.jaxpr, (0, []))
            n_out = len(closed.jaxpr.outs) + len(count[1])
            own = positions.get(closed.jaxpr, [])
            dropped = self.jaxpr(closed.jaxpr, [j for j, i in enumerate(own) if i in places])
            if n_out == len(eqn.out_binders):
                found = [*(found or ()), *dropped]
                results = zip(self.outs[closed.jaxpr], eqn.out_binders, strict=True)
                self.unread.update(x for x, v in results if isinstance(v, DropVar))
        return found


def _is_unit(x: Any, units: Collection[Var]) -> bool:
    return x is UNIT or x.aval == UNIT.aval or (bool(units) and type(x) is not Lit and x in units)


def _fewer_operands(params: dict[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return the params of an equation with counts of operands reduced by those at some positions."""
    new = dict(params)
    for names in _COUNTS:
        start = 0
        for name in names:
            size = params.get(name)
            if isinstance(size, int):
                new[name] = size - sum(start <= i < start + size for i in places)
                start += size
    return new


def _fewer(
    params: dict[str, Any], names: Sequence[str], places: Collection[int], count: int
) -> dict[str, Any]:
    """Return params without the entries at some positions, where a param in `names` has an entry
    for each of `count` values.
    """
    new = dict(params)
    for name in names:
        value: tuple[Any, ...] = params[name] if isinstance(params.get(name), tuple) else ()
        if len(value) == count:
            new[name] = tuple([v for i, v in enumerate(value) if i not in places])
    return new
