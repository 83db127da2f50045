"""What the bad values of a run reach: a result of the program, a decision, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.blaming.provenance import Event, Made, Origin

__all__ = ["Reach", "all_made"]


class Reach:
    """Which bad values reach a result of a program, or a decision that a result depends on. Others need no mending.

    Attributes:
      bits: the origins of these values, and the origins that those have come from.
      idle: the origins that are literals which the program only moves and drops, so that they are
        there on purpose.
    """

    def __init__(self, flow: Flow):
        marks = self._marks = flow.outs
        self._all = not marks  # the run was stopped, or there are no results
        self._made: set[Made] | None = None
        self._decided = reduce(or_, [mark.decided for mark in marks], 0)
        held = _with_earlier(flow, reduce(or_, [mark.bad for mark in marks], 0))
        self.bits = _with_earlier(flow, held | self._decided)
        self.idle = 0
        if flow.ended:
            # infinities are compared on purpose, as by a `top_k` of masked scores; NaN is not
            for origin in flow.origins:
                if not origin.is_literal:
                    continue
                kept = flow.events.computed | (self.bits if origin.kind == "nan" else held)
                if not origin.bit & kept:
                    self.idle |= origin.bit

    def masks(self, origin: Origin) -> bool:
        """Whether an origin is a literal that reaches no result, while other origins do, which are reported first."""
        if not origin.is_literal or origin.bit & self.bits:
            return False
        return any(mark.bad for mark in self._marks)

    def has(self, made: Made) -> bool:
        """Whether the bad values that an equation has made reach one."""
        if self._all or made.origins & self._decided:
            return True
        if self._made is None:
            self._made = {made for mark in self._marks for made in mark.made}
            queue = [*self._made]
            for one in queue:
                new = [x for x in one.parents if x not in self._made]
                self._made.update(new)
                queue += new
        return made in self._made

    def drops(self, event: Event) -> bool:
        """Whether a bad value that this equation has dropped reaches a result or a decision elsewhere."""
        return self._all or bool(event.bits & self.bits)


def _with_earlier(flow: Flow, bits: int) -> int:
    """Add to some origins, as bits, those that they have come from."""
    for origin in reversed(flow.origins):
        if origin.bit & bits:
            bits |= origin.earlier
    return bits


def all_made(flow: Flow) -> Iterator[Made]:
    """Yield the equations that have made or handed on bad values, and the sources that have a place."""
    contexts = flow.root.context().all_inside()
    return (made for context in contexts for made in context.made.values())
