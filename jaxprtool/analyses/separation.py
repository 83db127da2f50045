"""Which of several origins the bad elements of a value have: found by what becomes of those of each origin alone.

Where an operand of an equation has bad elements of one origin, and another operand, or the same one, those of another, the equation
is computed again on the elements of each while the others are replaced by 1. Equations are pure here, and seldom have operands
of several origins.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from jaxprtool.analyses.origins import Seen
from jaxprtool.analyses.provenance import Mark
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.interpreters.flow import elements_facts
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["Separation", "Separations", "together"]

_MOST_GROUPS = 4
_MOST_BITS = 62
_MOST_TIMES = (
    100  # an equation in a loop; its later steps count as if all origins reached the result
)


class Separation(NamedTuple):
    """What reaches the result of an equation.

    Attributes:
      bits: the origins that do.
      which: of each element of the result the origins that do, as bits; 0 for good elements and those that begin there.
    """

    bits: int
    which: Any

    def marks(self, known: Sequence[tuple[int, Mark]]) -> list[Mark]:
        """What is known of operands, without the bad values that do not reach the result."""
        pairs = [(m, m.bad & self.bits) for _, m in known]
        return [m._replace(bad=bad, made=m.made if bad else ()) for m, bad in pairs]


def together(of_results: Mapping[int, Separation]) -> Separation:
    """What reaches any of some results; of several results without saying which of their elements."""
    first, *more = of_results.values()
    if not more:
        return first
    return Separation(reduce(or_, [one.bits for one in of_results.values()]), None)


class Separations:
    """The origins of the bad elements of values that have several.

    Values whose bad elements all have the same origins are not here.
    """

    def __init__(self, bad: Any):
        """bad: a function of a value that says which of its elements are bad."""
        self._bad = bad
        self._of: dict[int, tuple[Any, Any]] = {}
        self._times: dict[Any, int] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def _get(self, value: Any) -> Any:
        found = self._of.get(id(value))
        return None if found is None or found[0]() is not value else found[1]

    def keep(self, value: Any, which: Any) -> None:
        """Remember the origins of each element of a value, where not all bad elements have the same ones."""
        bad = which[which != 0]
        if not which.ndim or not bad.size or bool((bad == bad[0]).all()):
            return
        key = id(value)
        self._of[key] = weakref.ref(value, lambda _: self._of.pop(key, None)), which

    def of(self, seen: Seen, known: Sequence[tuple[int, Mark]]) -> dict[int, Separation] | None:
        """What reaches each bad result of an equation; None where all origins of its operands do, as far as is known.

        known: what is known of operands, by their positions.
        """
        found: list[tuple[int, Any]] = []
        whole, alike = 0, True
        for i, mark in known:
            if mark.bad:
                which = self._get(seen.ins[i])
                alike = alike and which is None and whole in (0, mark.bad)
                whole |= mark.bad
                found.append((i, mark.bad if which is None else which))
        if alike or whole.bit_length() > _MOST_BITS or not _is_pure(seen) or self._is_often(seen):
            return None
        xp = numpy_namespace()
        results = {k: xp.asarray(self._bad(seen.outs[k])) for k in seen.spoilt}
        if len(found) == len(results) == 1 and seen.plan.elementwise:
            which, (k, result) = found[0][1], *results.items()
            if which.shape == result.shape and bool(((which != 0) == result).all()):
                return {k: Separation(whole, which.copy())}
        origins = {i: self._origins(seen.ins[i], which) for i, which in found}
        groups = {int(g) for x in origins.values() for g in xp.unique(x) if g}
        if len(groups) > _MOST_GROUPS:
            return None
        which = {k: xp.zeros(result.shape, xp.int64) for k, result in results.items()}
        for group in groups:
            reached = self._reached(seen, origins, group)
            for k, result in results.items():
                which[k] |= xp.where(result & reached[k], group, 0)
        if not seen.plan.elementwise:
            self._settle(seen, origins, results, which, whole)
        return {k: Separation(int(xp.bitwise_or.reduce(x, axis=None)), x) for k, x in which.items()}

    def _is_often(self, seen: Seen) -> bool:
        key = seen.frame.context(), seen.eqn
        times = self._times[key] = self._times.get(key, 0) + 1
        return times > _MOST_TIMES

    def _origins(self, value: Any, which: Any) -> Any:
        xp = numpy_namespace()
        return xp.where(self._bad(value), which, 0) if isinstance(which, int) else which

    def _reached(self, seen: Seen, origins: dict[int, Any], group: int) -> dict[int, Any]:
        """Which elements of the results are bad where only operands' elements of a group are; `group` 0: where none is."""
        xp, eqn, ins = numpy_namespace(), seen.eqn, [*seen.ins]
        for i, x in origins.items():
            value = xp.asarray(ins[i])
            good = xp.where((x != 0) & (x != group), value.dtype.type(1), value)
            ins[i] = good if value.ndim else good[()]
        avals = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
        with xp.errstate(all="ignore"):
            outs = prepare_impl(xp, eqn.primitive, *avals, eqn.params)(*ins)
            outs = outs if eqn.primitive.multiple_results else [outs]
            return {k: self._bad(outs[k]) for k in seen.spoilt}

    def _settle(
        self,
        seen: Seen,
        origins: dict[int, Any],
        results: dict[int, Any],
        which: dict[int, Any],
        whole: int,
    ) -> None:
        """Say where the elements are from that no group alone makes bad, or each of them does.

        What sorts puts other elements in a place where some of its keys are replaced.
        """
        own: dict[int, Any] = {}
        if elements_facts[seen.eqn.primitive] != "computed":
            # it has a value of its own where an index is out of bounds
            own = self._reached(seen, origins, 0)
        for k, result in results.items():
            begins = own.get(k, False)
            which[k][result & (which[k] == 0)] = whole
            which[k][result & begins] = 0


def _is_pure(seen: Seen) -> bool:
    eqn = seen.eqn
    return not (sub_jaxprs(eqn) or has_effects(eqn) or seen.plan.refs)
