"""Where bad values begin while a program runs: what `analyses.blaming.flow` records of equations that make or drop some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought, range_of, values_at
from jaxprtool.analyses.blaming.plans import Plan
from jaxprtool.analyses.blaming.provenance import (
    Described,
    Event,
    Frame,
    Made,
    Mark,
    Origin,
    Source,
)
from jaxprtool.analyses.blaming.zeros import Zeros, chosen_in, zeros_of
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import JaxprEqn, Lit

__all__ = ["Origins", "Seen", "Stop"]

_TRIED = 4  # runs of one product in which 0s are looked for
_MOST = 200  # products whose 0s are kept
_MOST_SUMS = 100  # sums of products in which 0s are looked for
_KEPT = 16 << 20  # bytes of operands and results that are kept to be described later


class Seen:
    """An equation that has run.

    Attributes:
      frame, log: the frame and the log of its jaxpr.
      i: its index there.
      plan: its plan.
      worst: the state of its worst result (`Sought.state`).
      spoilt: the positions of its bad results.
      codes: what is bad in its single result, as bytes (`Sought.code`); None where nobody has
        looked.
      own: the origin that the equation itself is, as a bit; 0 where it is none.
      begins: which elements of its single result begin at it, where some do not; else None.
    """

    __slots__ = ("begins", "codes", "frame", "i", "log", "own", "plan", "spoilt", "worst")

    def __init__(
        self,
        frame: Frame,
        log: Log,
        i: int,
        plan: Plan,
        worst: int,
        spoilt: tuple[int, ...],
        codes: bytes | None = None,
    ):
        self.frame, self.log, self.i, self.plan = frame, log, i, plan
        self.worst, self.spoilt, self.codes = worst, spoilt, codes
        self.own, self.begins = 0, None

    @property
    def eqn(self) -> JaxprEqn:
        """The equation."""
        return self.plan.eqn

    @property
    def ins(self) -> list[Any]:
        """The values of its operands."""
        return self.log.ins(self.i)

    @property
    def outs(self) -> Sequence[Any]:
        """Its results."""
        return self.log.given(self.i)


class _Fresh(NamedTuple):
    """What begins in an elementwise operation that has bad operands too.

    Attributes:
      own: which elements of the result begin there.
      passes: whether a bad element of an operand is at an index where the result is bad.
    """

    own: Any
    passes: bool


class Stop(Exception):
    """Ends an evaluation at the first origin."""

    def __init__(self, origin: Origin):
        super().__init__()
        self.origin = origin


class Origins:
    """Where bad values began, and what happened to them.

    Attributes:
      sought: what a bad value is.
      origins: where bad values began, in the order in which they were met.
      stop: whether evaluation ends (by `Stop`) at the first equation whose result is bad, apart
        from bad literals.
      keep: whether origins keep the values of operands and results.
      computed: the origins from which equations have computed bad values, and not only moved them,
        as bits.
      changed: whether something has become known since that was set to False.
      met: the equations that have made bad values, and how often, since that was emptied.
    """

    def __init__(self, sought: Sought, *, stop: bool = False, keep: bool = False):
        self.sought, self.stop, self.keep = sought, stop, keep
        self.origins: list[Origin] = []
        self.computed = 0
        self.changed = False
        self.met: Counter[Made] = Counter()
        self._good: dict[tuple[int, int, int], Mark] = {}
        self._events = self._n_zeros = self._n_sums = 0
        self._room = _KEPT

    def good_mark(self, taint: int, decided: int, mixed: int) -> Mark:
        """Return the mark of good values that depend on these origins; one object for all of them."""
        found = self._good.get((taint, decided, mixed))
        if found is None:
            found = self._good[taint, decided, mixed] = Mark((), 0, taint, decided, mixed)
        return found

    def source(self, source: Source, value: Any) -> Mark:
        """Return the mark of a value that a source gives, whose origin is new."""
        made = Made(None, None, source)
        bit = self._origin(made, self.sought.kind_of(value)).bit
        return Mark((made,), bit, bit, 0, 0)

    def literal(self, frame: Frame, lit: Lit, i: int, value: Any) -> Mark:
        """Return the mark of a bad literal; at one place in the program it is one source."""
        made = frame.context().made.get(lit)
        if made is None:
            (made,) = self.source(Source("literal", i, str(lit)), value).made
            frame.context().made[lit] = made
        return Mark((made,), made.origins, made.origins, 0, 0)

    def _origin(self, made: Made, kind: str = "") -> Origin:
        self.changed = True
        origin = made.origin = Origin(made, kind, 1 << len(self.origins))
        self.origins.append(origin)
        made.origins |= origin.bit
        return origin

    def makes(self, seen: Seen, whole: Mark, *, begins: bool = False) -> Mark:
        """Return the mark of the bad results of an equation, and record that it made them.

        Args:
          seen: the equation.
          whole: the merged mark of its operands.
          begins: whether some bad elements are known to begin at the equation.
        """
        frame, eqn, worst = seen.frame, seen.plan.eqn, seen.worst
        self._events += 1
        table = frame.context().made
        made = table.get(eqn)
        if made is None:
            self.changed = True
            made = table[eqn] = Made(eqn, frame)
        self.met[made] += 1
        made.times += 1
        made.count, made.nan = max(made.count, worst >> 1), made.nan or bool(worst & 1)
        if made.zeros is None and made.times <= _TRIED:
            made.zeros = self.zeros_met(seen.log, seen.i, seen.plan)
        bits, parents = whole.bad, whole.made
        own, fresh = 0, self._fresh(seen) if bits else None
        if fresh is not None:
            if fresh.passes:
                seen.begins = fresh.own
            else:
                bits, parents = 0, ()
        if not bits or fresh is not None or begins:
            own = seen.own = self._begins(made, seen, bits)
        for parent in parents:
            if parent not in made.parents:
                self.changed = True
                made.parents += (parent,)
            origin = parent.origin
            if parent.source is not None and origin is not None and not origin.flows:
                self._describe(origin, seen.plan, seen.spoilt, seen.frame, seen.log, seen.i)
        bits |= own
        made.origins |= bits
        if not seen.plan.moves:
            self.computed |= bits
        return Mark((made,), bits, whole.taint | bits, whole.decided, whole.mixed)

    def zeros_met(self, log: Log, i: int, plan: Plan) -> Zeros | None:
        """Return the operands of a product that are 0 where its result is bad because of that; None where it has none."""
        if not (plan.product or plan.sums) or self._n_zeros >= _MOST:
            return None
        if chosen_in(log).isdisjoint(plan.operands):
            return None
        ins, nonzeros = log.ins(i), numpy_namespace().count_nonzero
        if all([nonzeros(x) == x.size for x in ins]):  # noqa: C419 (quicker)
            return None
        if plan.sums:
            self._n_sums += 1
            if self._n_sums > _MOST_SUMS:
                return None
        found = zeros_of(log, i, self.sought.where(log.results[i]), self.sought)
        self._n_zeros += bool(found)
        return found or None

    def some_begin(self, seen: Seen, known: Sequence[Mark | None]) -> bool:
        """Whether bad elements begin at an equation with bad operands; known: the marks of its operands."""
        return any(m is not None and m.bad for m in known) and self._fresh(seen) is not None

    def _fresh(self, seen: Seen) -> _Fresh | None:
        """Return what begins at an elementwise operation with bad operands: bad elements of good ones, NaNs of infinities.

        None where nothing does.
        """
        if not seen.plan.elementwise or not seen.spoilt:
            return None
        xp, marks = numpy_namespace(), seen.frame.marks
        known = seen.frame.codes
        if seen.codes is None:
            seen.codes = known[seen.plan.eqn.out_binders[0]] = self.sought.code(seen.outs[0])
        inputs, parts = seen.plan.eqn.inputs, list[Any]()
        for i in (*seen.plan.positions, *seen.plan.literals):
            x = inputs[i]
            if type(x) is not Lit:
                mark = marks.get(x)
                if mark is None or not mark.bad:
                    continue
            code = known.get(x)
            if code is None:
                code = self.sought.code(seen.log.value(x))
                if type(x) is not Lit:
                    known[x] = code
            if code == seen.codes:
                return None
            parts.append(xp.frombuffer(code, xp.uint8).reshape(xp.shape(seen.log.value(x))))
        found = own = xp.frombuffer(seen.codes, xp.uint8).reshape(xp.shape(seen.outs[0]))
        for part in parts:
            own = own & ~part
        if not own.any():
            return None
        return _Fresh(own > 0, any(bool((found & part).any()) for part in parts))

    def is_unread(self, made: Made) -> bool:
        """Whether no equation whose result is bad has been recorded yet for a source."""
        return made.origin is not None and not made.origin.flows

    def begins(self, made: Made, plan: Plan, frame: Frame, log: Log, i: int) -> int:
        """Return the bit of the origin that an equation is whose operands are good, and whose single result is bad; made: what was not known before."""
        self._events += 1
        origin = self._origin(made)
        self._describe(origin, plan, (0,), frame, log, i)
        return origin.bit

    def _begins(self, made: Made, seen: Seen, earlier: int) -> int:
        """Return the bit of the origin that an equation is; the first time it is described.

        earlier: the origins of the bad operands, as bits.
        """
        if made.origin is None:
            origin = self._origin(made)
            origin.earlier = earlier
            self._describe(origin, seen.plan, seen.spoilt, seen.frame, seen.log, seen.i)
            return origin.bit
        return made.origin.bit

    def _describe(
        self,
        origin: Origin,
        plan: Plan,
        spoilt: Sequence[int],
        frame: Frame,
        log: Log,
        i: int,
    ) -> None:
        """Record the place of an origin, and the values there, or how these are described later."""
        self.changed = True
        ins, outs = log.ins(i), log.given(i)
        origin.eqn, origin.path, origin.order = plan.eqn, frame.path(), self._events
        origin.flows = True
        kind = "" if origin.source is None else origin.kind
        describe = partial(_described, self.sought, kind, plan, spoilt, ins, outs)
        origin.is_described_by(describe, later=self._may_keep(plan, ins, outs))
        if self.keep:
            origin.seen = ins, outs
        if self.stop and not origin.is_literal:  # the program may drop a literal again
            raise Stop(origin)

    def _may_keep(self, plan: Plan, ins: Sequence[Any], outs: Sequence[Any]) -> bool:
        """Whether operands and results may be kept as they are, and there is room for them, which they then take."""
        if self._room <= 0 or plan.refs or plan.cells:
            return False
        room, array = self._room, numpy_namespace().ndarray
        for values in (ins, outs):
            for x in values:
                if type(x) is array:
                    room -= x.nbytes if x.base is None else getattr(x.base, "nbytes", x.nbytes)
        self._room = room
        return room >= 0

    def decide(self, frame: Frame, eqn: JaxprEqn, bits: int) -> None:
        """Record an equation that decides something by a value which depends on bad values of these origins."""
        self._happens(frame.context().deciding, frame, eqn, bits)

    def _happens(
        self, events: dict[JaxprEqn, Event], frame: Frame, eqn: JaxprEqn, bits: int
    ) -> None:
        known = events.get(eqn)
        if known is None:
            self.changed = True
            self._events += 1
            events[eqn] = Event(self._events, frame.path(), bits)
        elif bits & ~known.bits:
            events[eqn] = known._replace(bits=known.bits | bits)

    def mask(self, frame: Frame, eqn: JaxprEqn, whole: Mark) -> None:
        """Record an equation that has a bad operand and good results; whole: the merged mark of its operands."""
        self._happens(frame.context().masks, frame, eqn, whole.bad)
        frame.masks_inside()
        for made in whole.made:
            origin = made.origin
            if origin is not None and origin.eqn is None:
                self.changed = True
                origin.eqn, origin.path, origin.order = eqn, frame.path(), self._events


def _described(
    sought: Sought,
    kind: str,
    plan: Plan,
    spoilt: Sequence[int],
    ins: Sequence[Any],
    outs: Sequence[Any],
) -> Described:
    """Describe the values at an origin.

    Args:
      sought: what a bad value is.
      kind: the kind of a source; "" for an equation.
      plan: the plan of the equation.
      spoilt: the positions of its bad results.
      ins, outs: its operands and results.
    """
    eqn = plan.eqn
    with numpy_namespace().errstate(all="ignore"):
        if not spoilt:
            pairs = zip(ins, eqn.inputs, strict=True)
            return Described(
                kind or sought.kinds[0], operands=[range_of(x, a.aval) for x, a in pairs]
            )
        k = min(spoilt)
        which = sought.where(outs[k])
        indices = sought.indices(which)
        at, shape = indices if plan.elementwise else (), which.shape
        pairs = zip(ins, eqn.inputs, strict=True)
        return Described(
            kind or sought.kind_of(outs[k]),
            k,
            str(eqn.out_binders[k].aval),
            int(which.sum()),
            which.size,
            indices,
            values_at(outs[k], indices),
            [range_of(x, a.aval, at, shape) for x, a in pairs],
        )
