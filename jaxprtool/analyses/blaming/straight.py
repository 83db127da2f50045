"""Follow bad values through the elementwise equations of a program itself, which run once: quicker than equation by equation."""

from __future__ import annotations

from typing import Any

from jaxprtool.analyses.blaming.origins import Origins
from jaxprtool.analyses.blaming.plans import Plan, Plans
from jaxprtool.analyses.blaming.provenance import Frame, Made, Mark
from jaxprtool.analyses.blaming.separation import Separations
from jaxprtool.analyses.blaming.zeros import chosen_in
from jaxprtool.analyses.logs import Log

__all__ = ["Straight"]


class Straight:
    """Follows the equations of the program, and no jaxprs inside."""

    def __init__(self, events: Origins, separations: Separations):
        """Begin.

        Args:
          events: where bad values begin.
          separations: the origins of elements of values that have several.
        """
        self._events, self._separations = events, separations

    def go_on(
        self, plans: Plans, frame: Frame, log: Log, start: int, end: int, bad: dict[int, Any]
    ) -> int:
        """Follow elementwise equations of the program in which bad values begin, or are handed on; return the index of the first other one.

        It finds what `_follow_equation` finds, and is quicker: the program itself runs once, and
        may be long.
        """
        marks, codes, made_by = frame.marks, frame.codes, frame.context().made
        get, coded, plain, chosen = marks.get, codes.get, plans.plain, chosen_in(log)
        events, apart = self._events, bool(self._separations)
        for i in range(start, end):
            found, plan, whole = bad.get(i), plain[i], plans.eqns[i]
            if found is None:
                for x in whole.operands:
                    if x in marks:
                        return i
                continue
            if plan is None or found[2] is None:
                return i
            eqn, operands, v = plan
            worst, _, code = found
            same, mixes, parents, origins, taint, decided, mixed = False, False, (), 0, 0, 0, 0
            for x in operands:
                mark = get(x)
                if mark is not None:
                    more, b, t, d, m = mark
                    if b:
                        of = coded(x)
                        if of is None:
                            of = codes[x] = events.sought.code(log.value(x))
                        same = same or of == code
                        mixes = mixes or origins not in (0, b)
                    if more is not parents or not more:
                        parents = parents + more if parents else more
                        origins, taint = origins | b, taint | t
                        decided, mixed = decided | d, mixed | m
            if origins and not same:
                return i  # some may begin here too
            for m in parents:
                if m.source is not None and events.is_unread(m):
                    return i
            several = mixes or (apart and origins & (origins - 1))
            if several and not self._are_alike(whole, log, frame, mixes=mixes):
                return i  # several origins have to be told apart
            made = made_by[eqn] = Made(eqn, frame, None, parents, origins, worst)
            if not origins:
                origins = events.begins(made, whole, frame, log, i)
                taint |= origins
            if not whole.moves:
                events.computed |= origins
            if chosen and whole.product:
                made.zeros = events.zeros_met(log, i, whole)
            marks[v] = Mark((made,), origins, taint, decided, mixed)
            codes[v] = code
        return end

    def _are_alike(self, plan: Plan, log: Log, frame: Frame, *, mixes: bool) -> bool:
        """Whether all elements of the result of an elementwise equation have the origins of all its bad operands.

        frame: has the codes of these. mixes: whether these have different origins; then they have
        to be bad all over.
        """
        if mixes and (plan.moves or self._separations.may_drop(plan)):
            return False
        get, codes, apart = frame.marks.get, frame.codes, self._separations
        for x in plan.operands:
            mark = get(x)
            if mark is not None and mark.bad:
                if mixes and 0 in codes[x]:
                    return False
                if apart and apart.numbers(log.value(x)) is not None:
                    return False
        return True
