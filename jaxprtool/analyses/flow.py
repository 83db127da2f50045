"""How bad values flow through a program while it runs on NumPy: where each began, and what it reaches.

`Flow` observes one evaluation. Of each jaxpr that runs it keeps which variables hold bad values, or good ones that were
computed from bad ones, with the equations that made them. Equations of a loop are kept once, not once for each step, so that
memory grows with the program and not with the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

from jaxprtool.analyses.bad_values import Sought, range_of, values_at
from jaxprtool.analyses.places import Level, Watch
from jaxprtool.analyses.provenance import (
    CLEAN,
    Call,
    Entry,
    Frame,
    Made,
    Mark,
    Origin,
    Source,
    merged,
)
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.flow import steering_facts
from jaxprtool.interpreters.state_values import Cell
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Var

__all__ = ["Flow", "Stop"]


class Plan(NamedTuple):
    """What is looked at in an equation.

    Attributes:
      floats: positions of floating results.
      single: whether it has one result, a floating one.
      operands: the operands that are variables; positions: where they are among all.
      literals: positions of the literals that are bad.
      refs: positions of the operands that are references.
      cells: whether a result is a reference.
      holds: whether it may run jaxprs.
      steering: positions of the operands that decide something.
    """

    floats: tuple[int, ...]
    single: bool
    operands: tuple[Var, ...]
    positions: tuple[int, ...]
    literals: tuple[int, ...]
    refs: tuple[int, ...]
    cells: bool
    holds: bool
    steering: tuple[int, ...]


class Seen(NamedTuple):
    """An equation that has run: the frame, its operands and results, and which results are bad."""

    frame: Frame
    eqn: JaxprEqn
    ins: Sequence[Any]
    outs: Sequence[Any]
    spoilt: tuple[int, ...] = ()


class Stop(Exception):
    """Ends an evaluation at the first origin."""

    def __init__(self, origin: Origin):
        super().__init__()
        self.origin = origin


class Flow(Watch):
    """The observer.

    Attributes:
      sought: what a bad value is.
      origins: where bad values began, in the order in which they were met.
      outs: what is known of the results of the program.
      root: the frame of the program.
      stop: whether evaluation ends (by `Stop`) at the first equation whose result is bad.
    """

    def __init__(self, sought: Sought, *, stop: bool = False):
        super().__init__()
        self.sought, self.stop = sought, stop
        self.origins: list[Origin] = []
        self.outs: list[Mark] = []
        self.root = Frame(None, None)
        self._frame = self.root
        self._may_hold = sought.may_hold
        self._plans: dict[JaxprEqn, Plan] = {}
        self._cells: dict[int, tuple[Any, Mark]] = {}
        self._bad_consts: dict[Jaxpr, dict[Var, Mark]] = {}
        self._bad_outs: dict[Jaxpr, tuple[int, ...]] = {}
        self._good: dict[tuple[int, int], Mark] = {}
        self._events = 0

    # -- jaxprs --------------------------------------------------------------------------------

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        if not super().enter(jaxpr, args):
            return False
        step = self.levels[-1].step
        if step is None:
            self._frame = self.root
            self._read_arguments(jaxpr, args)
            return True
        above = self._frame
        above.entered = True
        frame = self._frame = Frame(above, step)
        call = above.call
        if call is not None and (call.marks or call.out_marks or call.by_position):
            self._pass_arguments(frame, call, jaxpr, args)
        if jaxpr.const_binders:
            self._read_constants(frame, jaxpr, args)
        return True

    def _read_arguments(self, jaxpr: Jaxpr, args: Sequence[Any]) -> None:
        """Look for bad values among the constants and arguments of the program."""
        n_consts = len(jaxpr.const_binders)
        for i, (v, value) in enumerate(zip(jaxpr.all_binders, args, strict=True)):
            kind, index = ("constant", i) if i < n_consts else ("argument", i - n_consts)
            source = Source(kind, index, v.name or "")
            if isinstance(value, Cell):
                if self._holds_bad(value):
                    self._write(value, self._source(source, value.value))
            elif _is_float(v.aval) and value in self.sought:
                self.root.marks[v] = self._source(source, value)

    def _read_constants(self, frame: Frame, jaxpr: Jaxpr, args: Sequence[Any]) -> None:
        """Look for bad values among the constants of a jaxpr inside, the first time."""
        found = self._bad_consts.get(jaxpr)
        if found is None:
            found = self._bad_consts[jaxpr] = {}
            for i, v in enumerate(jaxpr.const_binders):
                if v not in frame.marks and _is_float(v.aval) and args[i] in self.sought:
                    found[v] = self._source(Source("constant", i, v.name or ""), args[i])
        frame.marks.update(found)

    def _pass_arguments(self, frame: Frame, call: Call, jaxpr: Jaxpr, args: Sequence[Any]) -> None:
        binders = jaxpr.all_binders
        n = len(binders)
        for i, (v, value) in enumerate(zip(binders, args, strict=True)):
            mark, exact = call.mark_of(value, n - i)
            if (
                mark is None
            ):  # neither an operand nor a result of the last step, but perhaps made of some
                if not (_is_float(v.aval) and value in self.sought):
                    continue
                mark = call.any_mark()
            if mark.bad and not exact and not (_is_float(v.aval) and value in self.sought):
                mark = self._good_mark(mark.taint, mark.decided)
            if mark.taint:
                frame.marks[v] = mark

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        step = self.levels[-1].step
        self.levels.pop()
        frame = self._frame
        marks = self._known_outs(frame, jaxpr, outs)
        if step is None or frame.above is None:
            self.outs = marks or [CLEAN] * len(outs)
            return
        above = self._frame = frame.above
        call = above.call
        if call is None:
            if not marks:
                return
            call = above.call = Call(above.ins, ())
        if steering_facts[step.eqn.primitive] == step.param:
            if marks:
                call.steered = merged([call.steered, *marks])
            return
        call.outs, call.out_marks = outs, marks or [CLEAN] * len(outs)
        for k, mark in enumerate(marks):
            before = call.by_position.get(k)
            if before is None:
                if mark.taint:
                    call.by_position[k] = mark
            elif before is not mark and mark.taint:
                both = merged([before, mark])
                call.by_position[k] = before if both == before else both

    def _known_outs(self, frame: Frame, jaxpr: Jaxpr, outs: Sequence[Any]) -> list[Mark]:
        """What is known of the results of a jaxpr; an empty list where nothing is known of any."""
        literals = self._bad_outs.get(jaxpr)
        if literals is None:
            literals = self._bad_outs[jaxpr] = self._bad_literals(jaxpr.outs)
        return self._known(frame, jaxpr.outs, outs, literals) if literals or frame.marks else []

    def _bad_literals(self, atoms: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the literals that are bad."""
        found = [i for i, x in enumerate(atoms) if type(x) is Lit and _is_float(x.aval)]
        return tuple([i for i in found if numpy_namespace().value(atoms[i]) in self.sought])

    def _known(
        self, frame: Frame, atoms: Sequence[Any], values: Sequence[Any], literals: Sequence[int]
    ) -> list[Mark]:
        """What is known of atoms of a frame; an empty list where nothing is known of any."""
        marks = [*map(frame.marks.get, atoms, repeat(CLEAN))]
        for i in literals:
            marks[i] = self._literal(frame, atoms[i], i, values[i])
        return marks if any([m is not CLEAN for m in marks]) else []  # noqa: C419 (quicker)

    # -- equations -----------------------------------------------------------------------------

    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None:
        level: Level = self.levels[-1]
        level.eqn = eqn
        frame = self._frame
        frame.eqn, frame.ins = eqn, ins
        frame.entered = frame.masked = False
        frame.call = None
        literals = self._plan(eqn).literals
        if frame.marks or literals:
            known = self._known(frame, eqn.inputs, ins, literals)
            if known:
                frame.call = Call(ins, known)

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        frame = self._frame
        plan = self._plans.get(eqn) or self._plan(eqn)
        if plan.holds and frame.entered and frame.eqn is eqn:
            self._follow_call(frame, plan, eqn, outs)
            frame.call, frame.ins = None, ()
            return
        if plan.refs or plan.cells:
            self._follow_cells(plan, Seen(frame, eqn, ins, outs))
            return
        if frame.marks:
            self._follow(plan, frame, eqn, ins, outs)
            return
        may_hold = self._may_hold
        for i in plan.floats:
            if may_hold(outs[i]):
                self._follow(plan, frame, eqn, ins, outs)
                return

    def _plan(self, eqn: JaxprEqn) -> Plan:
        found = self._plans.get(eqn)
        if found is None:
            floats = tuple([i for i, v in enumerate(eqn.out_binders) if _is_float(v.aval)])
            inputs = [*enumerate(eqn.inputs)]
            variables = [(i, x) for i, x in inputs if isinstance(x, Var)]
            found = self._plans[eqn] = Plan(
                floats,
                floats == (0,) and len(eqn.out_binders) == 1,
                tuple([x for _, x in variables]),
                tuple([i for i, _ in variables]),
                self._bad_literals(eqn.inputs),
                tuple([i for i, x in inputs if type(x.aval) is RefType]),
                any(type(v.aval) is RefType for v in eqn.out_binders),
                eqn.primitive.holds_jaxprs,
                _steering(eqn),
            )
        return found

    def _follow(
        self, plan: Plan, frame: Frame, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]
    ) -> None:
        """Say what is known of the results of an equation without jaxprs and references."""
        marks, state = frame.marks, self.sought.state
        get = marks.get
        known = tuple([get(x) for x in plan.operands])
        if plan.single:
            worst = state(outs[0])
            spoilt = (worst > 0,)
        else:
            states = [state(outs[i]) for i in plan.floats]
            worst = max(states, default=0)
            spoilt = tuple([s > 0 for s in states])
        if not worst and not any(known):
            return
        entry = frame.context().entries.get(eqn)
        if entry is not None and entry.spoilt == spoilt and entry.known == known:
            made = entry.made
            if made is None or (worst >> 1 <= made.count and (made.nan or not worst & 1)):
                if made is not None:
                    made.times += 1
                    made.last = frame
                for v, mark in zip(eqn.out_binders, entry.marks, strict=True):
                    marks[v] = mark
                return
        bad = tuple([i for i, b in zip(plan.floats, spoilt, strict=True) if b])
        found = [(i, m) for i, m in zip(plan.positions, known, strict=True) if m is not None]
        entry = self._entry(plan, Seen(frame, eqn, ins, outs, bad), found, worst)
        if entry is not None:
            frame.context().entries[eqn] = entry._replace(known=known, spoilt=spoilt)
            for v, mark in zip(eqn.out_binders, entry.marks, strict=True):
                marks[v] = mark

    def _entry(
        self, plan: Plan, seen: Seen, known: Sequence[tuple[int, Mark]], worst: int
    ) -> Entry | None:
        """What is known of the results of an equation; None where they depend on no bad value."""
        whole = merged([m for _, m in known])
        decided = whole.decided
        for i, m in known:
            # of a boolean, what made it has decided, or only asked whether a value is finite
            if i in plan.steering and seen.eqn.inputs[i].aval.dtype.kind != "b":
                decided |= m.taint
        if decided & ~whole.decided:
            self._decide(seen.frame, seen.eqn)
        made = None
        if seen.spoilt:
            whole = self._makes(seen, whole, worst)
            (made,) = whole.made
        elif whole.bad and seen.eqn.out_binders:
            self._mask(seen.frame, seen.eqn, whole)
        if not whole.taint:
            return None
        good = self._good_mark(whole.taint, decided)
        spoiled = Mark(whole.made, whole.bad, whole.taint, decided)
        n = len(seen.eqn.out_binders)
        marks = tuple([spoiled if i in seen.spoilt else good for i in range(n)])
        return Entry((), (), marks, made)

    def _good_mark(self, taint: int, decided: int) -> Mark:
        """The one mark of good values that depend on these origins."""
        found = self._good.get((taint, decided))
        if found is None:
            found = self._good[taint, decided] = Mark((), 0, taint, decided)
        return found

    def _follow_call(self, frame: Frame, plan: Plan, eqn: JaxprEqn, outs: Sequence[Any]) -> None:
        """Say what is known of the results of an equation whose jaxprs have run."""
        call = frame.call
        if call is None:
            if not self._cells and not any(self._may_hold(outs[i]) for i in plan.floats):
                return
            call = Call(frame.ins, ())
        marks = call.marks
        decision = call.steered.taint
        if plan.steering and marks:
            decision |= merged([marks[i] for i in plan.steering]).taint
        if decision:
            self._decide(frame, eqn)
        reached = any_bad = False
        for k, v in enumerate(eqn.out_binders):
            mark, exact = call.result_mark(k, outs[k])
            if mark is None:
                mark = self._mark_of_cell(outs[k])
            if exact and (mark.bad or k not in plan.floats):
                any_bad = any_bad or mark.bad > 0
            elif k in plan.floats and outs[k] in self.sought:
                any_bad = True
                if not mark.bad:  # the rule itself has made it, or a loop of its own
                    mark = self._made_by_call(call, Seen(frame, eqn, frame.ins, outs, (k,)))
            elif mark.bad:
                mark = self._good_mark(mark.taint, mark.decided)
            if decision:
                mark = Mark(mark.made, mark.bad, mark.taint | decision, mark.decided | decision)
            if mark.taint:
                reached = True
                frame.marks[v] = mark
        if reached and not any_bad and not frame.masked:
            whole = merged(call.marks)
            if whole.bad:
                self._mask(frame, eqn, whole)

    def _made_by_call(self, call: Call, seen: Seen) -> Mark:
        """What is known of a bad result of an equation whose jaxprs have made none."""
        return self._makes(seen, call.any_mark(), self.sought.state(seen.outs[seen.spoilt[0]]))

    # -- references ----------------------------------------------------------------------------

    def _follow_cells(self, plan: Plan, seen: Seen) -> None:
        """Say what is known of the results of an equation on references, and of what these point to."""
        frame, eqn, ins, outs = seen[:4]
        get = frame.marks.get
        known = [
            (i, m) for i, x in zip(plan.positions, plan.operands, strict=True) if (m := get(x))
        ]
        known += [(i, m) for i in plan.refs if (m := self._mark_of_cell(ins[i])).taint]
        cells = [x for x in (*ins, *outs) if type(x) is Cell]
        turned = any(map(self._turned_bad, cells))
        spoilt = tuple([i for i in plan.floats if outs[i] in self.sought])
        if not (known or spoilt or turned):
            return
        whole = merged([m for _, m in known])
        if turned and not spoilt:
            whole = self._makes(seen, whole, 2)
        entry = self._entry(plan, seen._replace(spoilt=spoilt), known, 2)
        if entry is not None:
            frame.marks.update(zip(eqn.out_binders, entry.marks, strict=True))
            whole = merged([whole, *entry.marks])
        for cell in cells:
            self._write(cell, whole)

    def _mark_of_cell(self, value: Any) -> Mark:
        """What is known of what a reference points to, or of an array that was one's."""
        if not self._cells:
            return CLEAN
        found = self._cells.get(id(_base(value.value if type(value) is Cell else value)))
        return CLEAN if found is None else found[1]

    def _holds_bad(self, cell: Cell) -> bool:
        return _is_float(cell.aval.inner) and cell.value in self.sought

    def _turned_bad(self, cell: Cell) -> bool:
        """Whether a cell that was good holds a bad value now."""
        return not self._mark_of_cell(cell).bad and self._holds_bad(cell)

    def _write(self, cell: Cell, mark: Mark) -> None:
        """Say what is known of a cell after an equation that may have written to it."""
        base = _base(cell.value)
        before = self._cells.get(id(base))
        if before is not None:
            mark = merged([before[1], mark])
        if not self._holds_bad(cell):
            mark = self._good_mark(mark.taint, mark.decided)
        if mark.taint:
            self._cells[id(base)] = (base, mark)

    # -- events --------------------------------------------------------------------------------

    def _source(self, source: Source, value: Any) -> Mark:
        """What is known of a value that a source gives."""
        made = Made(None, (), self._events, source)
        bit = self._origin(made, self.sought.kind_of(value)).bit
        return Mark((made,), bit, bit, 0)

    def _literal(self, frame: Frame, lit: Lit, i: int, value: Any) -> Mark:
        """What is known of a bad literal; at one place it is one source."""
        made = frame.context().made.get(lit)
        if made is None:
            (made,) = self._source(Source("literal", i, str(lit)), value).made
            frame.context().made[lit] = made
        return Mark((made,), made.origins, made.origins, 0)

    def _origin(self, made: Made, kind: str = "") -> Origin:
        origin = made.origin = Origin(made, kind, 1 << len(self.origins))
        self.origins.append(origin)
        made.origins |= origin.bit
        return origin

    def _makes(self, seen: Seen, whole: Mark, worst: int) -> Mark:
        """What is known of the bad results of an equation; it may be where they begin.

        whole: what is known of the operands. worst: the state of the worst result (`Sought.state`).
        """
        frame, eqn = seen.frame, seen.eqn
        self._events += 1
        table = frame.context().made
        made = table.get(eqn)
        if made is None:
            made = table[eqn] = Made(eqn, frame.path(), self._events)
        made.last = frame
        made.times += 1
        made.count, made.nan = max(made.count, worst >> 1), made.nan or bool(worst & 1)
        bits, parents = whole.bad, whole.made
        if not bits:
            found = [
                self._literal(frame, lit, i, seen.ins[i])
                for i in self._plan(eqn).literals
                if isinstance(lit := eqn.inputs[i], Lit)
            ]
            bits, parents = merged(found).bad, merged(found).made
        own = 0
        if not bits or self._is_fresh(seen):
            own = self._begins(made, seen, bits)
        made.parents.update(dict.fromkeys(parents))
        for parent in parents:
            origin = parent.origin
            if parent.source is not None and origin is not None and not origin.flows:
                self._describe(origin, seen)
        bits |= own
        made.origins |= bits
        return Mark((made,), bits, whole.taint | bits, whole.decided)

    def _is_fresh(self, seen: Seen) -> bool:
        """Whether an elementwise operation with bad operands makes a bad element of good ones, or a NaN of infinities."""
        eqn = seen.eqn
        if not is_elementwise(eqn.primitive) or not seen.spoilt:
            return False
        xp = numpy_namespace()
        out, sought = seen.outs[0], self.sought
        fresh = sought.where(out)
        nan = xp.isnan(out) if "nan" in sought.kinds else xp.zeros_like(fresh)
        for x, value in zip(eqn.inputs, seen.ins, strict=True):
            if _is_float(x.aval):
                fresh = fresh & ~sought.where(value)
                nan = nan & ~xp.isnan(value)
        return bool(fresh.any() or nan.any())

    def _begins(self, made: Made, seen: Seen, earlier: int) -> int:
        """The bit of the origin at an equation, which is described the first time."""
        if made.origin is None:
            origin = self._origin(made)
            origin.earlier = earlier
            self._describe(origin, seen)
            return origin.bit
        return made.origin.bit

    def _describe(self, origin: Origin, seen: Seen) -> None:
        """Say where an origin is, and what the values there are."""
        eqn, ins, outs = seen.eqn, seen.ins, seen.outs
        origin.eqn, origin.path, origin.order = eqn, seen.frame.path(), self._events
        origin.flows = True
        shape: tuple[int, ...] = ()
        if seen.spoilt:
            origin.result = k = min(seen.spoilt)
            which = self.sought.where(outs[k])
            shape = which.shape
            origin.kind = self.sought.kind_of(outs[k])
            origin.type = str(eqn.out_binders[k].aval)
            origin.count, origin.size = int(which.sum()), which.size
            origin.indices = self.sought.indices(which)
            origin.values = values_at(outs[k], origin.indices)
        elif not origin.kind:
            origin.kind = self.sought.kinds[0]
        at = origin.indices if is_elementwise(eqn.primitive) else ()
        origin.operands = [
            range_of(x, a.aval, at, shape) for x, a in zip(ins, eqn.inputs, strict=True)
        ]
        if self.stop:
            raise Stop(origin)

    def _decide(self, frame: Frame, eqn: JaxprEqn) -> None:
        """Remember an equation that decides something by a value which depends on a bad one."""
        self._events += 1
        frame.context().deciding.setdefault(eqn, (self._events, frame.path()))

    def _mask(self, frame: Frame, eqn: JaxprEqn, whole: Mark) -> None:
        """Remember an equation that has a bad operand and good results."""
        self._events += 1
        frame.context().masks.setdefault(eqn, (self._events, frame.path()))
        above = frame.above
        while above is not None:
            above.masked = True
            above = above.above
        for made in whole.made:
            origin = made.origin
            if origin is not None and origin.eqn is None:
                origin.eqn, origin.path, origin.order = eqn, frame.path(), self._events


def _is_float(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and dtype.is_inexact


def _is_infinite(x: Any) -> bool:
    return type(x) is Lit and isinstance(x.val, float) and math.isinf(x.val)


def _steering(eqn: JaxprEqn) -> tuple[int, ...]:
    """Positions of the operands that decide something in an equation."""
    fact = steering_facts[eqn.primitive]
    n = len(eqn.inputs)
    if fact == "all":
        # what compares a value with itself, or with an infinity, asks whether it is good, and decides nothing else
        asks = n == 2 and (eqn.inputs[0] is eqn.inputs[1] or any(map(_is_infinite, eqn.inputs)))
        return () if asks else tuple(range(n))
    if fact == "indices":
        return tuple(range(min(eqn.primitive.index_from, n), n))
    return {"operand 0": (0,), "operand 1": (1,)}.get(fact, ())


def _base(array: Any) -> Any:
    """The array that holds the elements of a view."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array
