"""Tell apart which of several origins each bad element of a value has.

An array whose bad elements have different origins is accompanied by an i32 array of its shape, with
the number of each element's origin set (`analyses.blaming.origin_sets`). `Separations.of` computes
those numbers for the results of an equation from those of its operands:

- An equation that moves elements is run again on the numbers.
- An elementwise equation with several bad operands: each element gets the sets of the operands that
  make it bad alone, or of all operands where none does.
- Any other equation is run again once for each set, with 1 in the place of the elements of all
  other sets: each element gets the sets that make it bad.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.origin_sets import OriginSets, Stacked
from jaxprtool.analyses.blaming.origins import Origins, Seen
from jaxprtool.analyses.blaming.plans import Plan, is_float
from jaxprtool.analyses.blaming.provenance import Call, Mark, merged
from jaxprtool.analyses.identity.products import is_bilinear, is_full, is_mixing
from jaxprtool.analyses.logs import Log
from jaxprtool.core.kinds.objects import FUNCTION
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import JaxprEqn, Lit
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["MOST_SETS", "Separations", "calls_python", "drops_any", "is_pure", "made_of"]

MOST_SETS = 64  # for how many sets an equation that is neither a move nor elementwise is run again
_MOST_TIMES = 10_000  # runs of one equation; later ones get all origins of all operands


class Separations:
    """The origins of the elements of values whose bad elements do not all have the same ones.

    Attributes:
      sets: the table of origin sets.
      active: whether origins of elements have been told apart since that was set to False.
    """

    def __init__(self, sought: Sought):
        self.sets, self.active = OriginSets(), False
        self._bad: Callable[[Any], Any] = sought.where
        self._all_drop, self._adds_up = drops_any(sought), sought.adds_up
        self._of: dict[int, tuple[Any, Any]] = {}
        self._times: dict[Any, int] = {}  # by context and equation: how often `of` was asked,
        self._spent: dict[Any, int] = {}  # and how often it was run again for a set

    def __bool__(self) -> bool:
        return bool(self._of)

    def numbers(self, value: Any) -> Any:
        """Return the origin-set numbers of a value's elements; None where all bad elements have the same set."""
        found = self._of.get(id(value))
        return None if found is None or found[0]() is not value else found[1]

    def keep(self, value: Any, numbers: Any) -> int:
        """Remember the numbers of a value's elements, if they differ; return the union of the sets, as bits."""
        among = self.sets.among(numbers)
        if len(among) > 1:
            self.active = True
            key = id(value)
            self._of[key] = weakref.ref(value, lambda _: self._of.pop(key, None)), numbers
        return self.sets.whole(among)

    def whole(self, numbers: Any) -> int:
        """Return the union of the sets of all elements, as bits."""
        return self.sets.whole(self.sets.among(numbers))

    def part(self, whole: Any, i: int | None, value: Any) -> int:
        """Return the origins of a bad value that is element i of another one along its first axis, as bits.

        0 where that one has no separate origins.
        """
        numbers = self.numbers(whole)
        if numbers is None or i is None or numbers.shape[1:] != numpy_namespace().shape(value):
            return 0
        self.active = True
        return self.keep(value, self.of_bad(value, numbers[i]))

    def stack(self, call: Call, log: Log, k: int, mark: Mark) -> None:
        """Note the origins of result k of one iteration of a loop that stacks it up."""
        assert log.eqn is not None
        inner, shape = log.jaxpr.outs, getattr(log.eqn.out_binders[k].aval, "shape", ())
        if k < len(inner) and len(shape) > len(getattr(inner[k].aval, "shape", ())):
            stack = call.stacks.get(k)
            if stack is None:
                stack = call.stacks[k] = Stacked(self.sets, shape)
            assert log.outs is not None and log.number is not None
            stack.put(log.number, mark.bad, self.numbers(log.outs[k]))

    def of_bad(self, value: Any, numbers: Any) -> Any:
        """Return numbers with 0 for the good elements of a value."""
        return numpy_namespace().where(self._bad(value), numbers, 0)

    def begin_in(self, value: Any, numbers: Any) -> bool:
        """Whether a bad element of a value has number 0: it begins where the value is made."""
        return bool((self._bad(value) & (numbers == 0)).any())

    def settle(self, seen: Seen, k: int, numbers: Any) -> int:
        """Remember the numbers of result k, with the equation's own origin for the elements that begin there.

        Returns the origins of all elements, as bits.
        """
        value = seen.outs[k]
        if seen.own:
            begins = seen.begins
            if begins is None:
                begins = self._bad(value) & (numbers == 0)
            numbers = self.sets.union(numbers, self.sets.full(begins, seen.own))
        return self.keep(value, numbers)

    def of(
        self, seen: Seen, known: Sequence[tuple[int, Mark]], *, alike: bool = False
    ) -> dict[int, Any] | None:
        """Compute the numbers of each bad result of an equation from those of its operands.

        Args:
          seen: the equation.
          known: the marks of its operands, with their positions.
          alike: whether the numbers are wanted even where all operands have the same origins.

        Returns:
          The numbers by position of the result, with 0 for elements that are good or begin there.
          None where the results have the same origins throughout, or these cannot be told apart,
          since the equation has effects or ran very often.
        """
        wanted, alike = alike, True
        found: list[tuple[int, Any]] = []
        whole = 0
        for i, mark in known:
            if mark.bad:
                numbers = self.numbers(seen.ins[i])
                alike = alike and numbers is None and whole in (0, mark.bad)
                whole |= mark.bad
                found.append((i, mark.bad if numbers is None else numbers))
        elements = elements_facts[seen.eqn.primitive]
        fills = alike and elements == "chosen" and bool(seen.plan.steering)
        if not found or not (wanted or fills or not alike):
            return None
        if not is_pure(seen.plan) or self._is_often(seen):
            return None
        if not wanted and elements == "computed" and self._are_all_bad(seen, found):
            return None
        self.active = self.active or not alike
        xp = numpy_namespace()
        bad = {k: xp.asarray(self._bad(seen.outs[k])) for k in seen.spoilt}
        of = {i: self._numbers_of(seen.ins[i], x) for i, x in found}
        if elements != "computed":
            made = self._moved(seen, of, elements)
        elif seen.plan.elementwise:
            made = self._of_each_operand(seen, of, bad)
        else:
            made = self._of_each_set(seen, of, bad, whole)
        if fills and not (bad[0] & (made[0] == 0)).any():
            return None
        return {k: xp.where(bad[k], made[k], 0) for k in seen.spoilt}

    def _are_all_bad(self, seen: Seen, found: Sequence[tuple[int, Any]]) -> bool:
        """Whether every element of a result has the origins of all bad operands, as each of these is bad all over, from one set."""
        if self.may_drop(seen.plan) or not all(isinstance(x, int) for _, x in found):
            return False
        if not seen.plan.elementwise and not self._adds_products(seen):
            return False
        return all(self._bad(seen.ins[i]).all() for i, _ in found)

    def _adds_products(self, seen: Seen) -> bool:
        """Whether each element of a result sums products of elements of two operands, and is bad where one of these elements is.

        A sum of infinities may be NaN: so it is bad if NaN is.
        """
        return (
            seen.plan.sums
            and self._adds_up
            and is_mixing(seen.eqn, seen.log.jaxpr)
            and is_bilinear(seen.eqn)
            and is_full(seen.eqn)
        )

    def _is_often(self, seen: Seen) -> bool:
        key = seen.frame.context(), seen.eqn
        times = self._times[key] = self._times.get(key, 0) + 1
        return times > _MOST_TIMES

    def _numbers_of(self, value: Any, found: Any) -> Any:
        return self.sets.full(self._bad(value), found) if isinstance(found, int) else found

    def _moved(self, seen: Seen, of: dict[int, Any], elements: str) -> Sequence[Any]:
        """Return the numbers of the results of an equation that moves elements: it is run on the numbers."""
        eqn, xp = seen.eqn, numpy_namespace()
        if elements == "converted":
            return [of[0]]
        floats = [i for i, x in enumerate(eqn.inputs) if is_float(x.aval)]
        numbers = {
            i: of[i] if i in of else xp.zeros(xp.shape(seen.ins[i]), xp.int32) for i in floats
        }
        ins, atoms = [*seen.ins], [x.aval for x in eqn.inputs]
        outs = [v.aval for v in eqn.out_binders]
        first: Sequence[int] = range(len(outs))
        if elements == "ordered":  # a sort: the numbers are further operands, sorted along
            first = [len(ins) + floats.index(k) if k in numbers else k for k in first]
            ins += numbers.values()
            atoms += [atoms[i].update(dtype=INT32) for i in floats]
            outs += [outs[i].update(dtype=INT32) for i in floats]
        else:
            for i, x in numbers.items():
                ins[i], atoms[i] = x, atoms[i].update(dtype=INT32)
            outs = [a.update(dtype=INT32) if is_float(a) else a for a in outs]
        made = prepare_impl(xp, eqn.primitive, atoms, outs, eqn.params)(*ins)
        made = made if eqn.primitive.multiple_results else [made]
        return [self.sets.in_table(made[k]) if i in seen.spoilt else 0 for i, k in enumerate(first)]

    def _of_each_operand(
        self, seen: Seen, of: dict[int, Any], bad: dict[int, Any]
    ) -> dict[int, Any]:
        """Return the numbers of an elementwise equation: those of the operands that make an element bad alone.

        Where none does, all operands count.
        """
        xp = numpy_namespace()
        if len(of) == 1 or not self.may_drop(seen.plan):
            return dict.fromkeys(bad, self._together(of))
        whole, made = None, dict.fromkeys(bad, 0)
        for i, numbers in of.items():
            alone = self._bad_with(seen, {j: x == 0 for j, x in of.items() if j != i})
            for k in bad:
                made[k] = self.sets.union(made[k], xp.where(alone[k], numbers, 0))
        for k, result in bad.items():
            left = result & (made[k] == 0)
            if left.any():
                whole = self._together(of) if whole is None else whole
                made[k] = xp.where(left, whole, made[k])
        return made

    def may_drop(self, plan: Plan) -> bool:
        """Whether a result of an equation may be good although an operand is bad."""
        return self._all_drop or plan.drops

    def _together(self, of: dict[int, Any]) -> Any:
        whole, *more = of.values()
        for numbers in more:
            whole = self.sets.union(whole, numbers)
        return whole

    def _of_each_set(
        self, seen: Seen, of: dict[int, Any], bad: dict[int, Any], whole: int
    ) -> dict[int, Any]:
        """Return the numbers of the sets that make an element bad alone.

        Where none does, or there are more sets than may be tried, all sets count.
        """
        xp, union = numpy_namespace(), self.sets.number(whole)
        sets = {n for numbers in of.values() for n in self.sets.among(numbers)}
        only = not self.may_drop(seen.plan) and all(b.size == 1 for b in bad.values())
        if only or len(sets) > self._trials(seen):  # all bad elements go into the only element
            return dict.fromkeys(bad, union)
        made: dict[int, Any] = dict.fromkeys(bad, 0)
        key = seen.frame.context(), seen.eqn
        self._spent[key] = self._spent.get(key, 0) + len(sets)
        for n in sets:
            alone = self._bad_with(seen, {i: (x == 0) | (x == n) for i, x in of.items()})
            for k in bad:
                made[k] = self.sets.union(made[k], self._where_set(alone[k], n))
        return {k: xp.where(made[k] == 0, union, made[k]) for k in bad}

    def _trials(self, seen: Seen) -> int:
        """Return for how many sets an equation may be run again.

        A function of Python may take long: it is run again at most as often as the program itself
        has run it.
        """
        if not calls_python(seen.eqn):
            return MOST_SETS
        key = seen.frame.context(), seen.eqn
        return min(MOST_SETS, self._times[key] - self._spent.get(key, 0))

    def _where_set(self, where: Any, n: int) -> Any:
        """Return an array with a number where a boolean array is true, else 0."""
        return numpy_namespace().multiply(where, n, dtype=numpy_namespace().int32)

    def _bad_with(self, seen: Seen, kept: dict[int, Any]) -> dict[int, Any]:
        """Run an equation with only some elements of its operands, and 1 in the place of the others.

        Args:
          seen: the equation.
          kept: which elements of each operand, by position, are kept.

        Returns:
          Which elements of each bad result are bad now.
        """
        xp, eqn, ins = numpy_namespace(), seen.eqn, [*seen.ins]
        for i, where in kept.items():
            value = xp.asarray(ins[i])
            good = xp.where(where, value, value.dtype.type(1))
            ins[i] = good if value.ndim else good[()]
        avals = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
        with xp.errstate(all="ignore"):
            outs = prepare_impl(xp, eqn.primitive, *avals, eqn.params)(*ins)
            outs = outs if eqn.primitive.multiple_results else [outs]
            return {k: self._bad(outs[k]) for k in seen.spoilt}


def drops_any(sought: Sought) -> bool:
    """Whether any operation may turn a bad value into a good one, as large and denormal values may become good."""
    return not {"denormal", "above"}.isdisjoint(sought.kinds)


def is_pure(plan: Plan) -> bool:
    """Whether an equation can be run again on other values."""
    return not (sub_jaxprs(plan.eqn) or has_effects(plan.eqn) or plan.refs)


def calls_python(eqn: JaxprEqn) -> bool:
    """Whether an equation calls a Python function of the user's."""
    return any(p.kind is FUNCTION for p in eqn.primitive.params.values())


def made_of(
    seen: Seen,
    known: Sequence[tuple[int, Mark]],
    whole: Mark,
    events: Origins,
    apart: Separations,
) -> tuple[Mark, dict[int, int] | None]:
    """Return the mark of the bad results of an equation together, and the origins of each result, as bits.

    None in the place of those origins where all results have the same ones.

    Args:
      seen: the equation.
      known: the marks of its operands, with their positions.
      whole: these marks, merged.
      events: where bad values began.
      apart: the origins of elements of values that have several.
    """
    if seen.plan.literals:
        known = [*known, *_literals(seen, events)]
        whole = merged([m for _, m in known])
    numbers = apart.of(seen, known)
    if numbers is None:
        made = events.makes(seen, whole)
        if seen.begins is None:
            return made, None
        numbers = apart.of(seen, known, alike=True) or {}
    else:
        bits = reduce(or_, map(apart.whole, numbers.values()))
        marks = [m._replace(bad=m.bad & bits, made=m.made * (m.bad & bits > 0)) for _, m in known]
        begins = any(apart.begin_in(seen.outs[k], x) for k, x in numbers.items())
        made = events.makes(seen, merged(marks), begins=begins)
    return made, {k: apart.settle(seen, k, x) for k, x in numbers.items()}


def _literals(seen: Seen, events: Origins) -> list[tuple[int, Mark]]:
    """Return the marks of the bad literals among the operands of an equation, with their positions."""
    eqn, ins, literal = seen.eqn, seen.ins, events.literal
    lits = [(i, x) for i in seen.plan.literals if isinstance(x := eqn.inputs[i], Lit)]
    return [(i, literal(seen.frame, x, i, ins[i])) for i, x in lits]
