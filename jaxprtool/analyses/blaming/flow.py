"""Provenance of bad values while a program runs on NumPy: where each began, and what it reaches.

`Flow` observes one evaluation, and propagates marks (`provenance.Mark`) through its logs
(`analyses.logs`). A variable has a mark if it holds a bad value, or was computed from one. The
equations that made bad values (`Made`) are kept once for a loop, not once for each iteration:
memory grows with the program only. Iterations in which nothing new happens are skipped many at a
time (`analyses.blaming.repeats`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from jaxprtool.analyses.blaming.bad_results import BadResults
from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.cells import Cells
from jaxprtool.analyses.blaming.origins import Origins, Seen
from jaxprtool.analyses.blaming.plans import Plan, Plans, is_float, plans_of
from jaxprtool.analyses.blaming.provenance import (
    CLEAN,
    Call,
    Entry,
    Frame,
    Made,
    Mark,
    Source,
    merged,
)
from jaxprtool.analyses.blaming.repeats import FEW, Group, Past, Repeats, stack_past, steers
from jaxprtool.analyses.blaming.separation import Separations, made_of
from jaxprtool.analyses.blaming.straight import Straight
from jaxprtool.analyses.logs import Log, Logging
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Var

__all__ = ["Flow"]

_MANY = 12  # from so many equations on, their results are looked at together
# What `BadResults` would say of good results: the worst state, which are bad, and the codes of a single one.
_GOOD = 0, (), None


class Flow(Logging):
    """The observer.

    Attributes:
      events: where bad values began, and what happened to them.
      outs: the marks of the results of the program.
      ended: whether the program has run to its end.
      root: the frame of the program.
    """

    def __init__(self, sought: Sought, *, stop: bool = False, keep: bool = False):
        super().__init__(each=stop)
        self.events = Origins(sought, stop=stop, keep=keep)
        self.sought, self.stop = sought, stop
        self.outs: Sequence[Mark] = []
        self.ended = False
        self.root = Frame(None, None)
        self._bad = BadResults(sought)
        self._cells = Cells(sought, self.events.good_mark)
        self._separations = Separations(sought)
        self._straight = Straight(self.events, self._separations)
        self._bad_consts: dict[Jaxpr, dict[Var, Mark]] = {}
        # Whether the last `_close` changed what is known at the equation that holds the jaxpr.
        self._call_changed = False

    @property
    def origins(self) -> Sequence[Any]:
        """Where bad values began, in the order in which they were met."""
        return self.events.origins

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        super().see(eqn, ins, outs)
        if self.stop and not self.at_once:
            pairs = zip(eqn.out_binders, outs, strict=True)
            if any(is_float(v.aval) and self.sought.may_hold(x) for v, x in pairs):
                self.flush()

    # -- logs ----------------------------------------------------------------------------------

    def look(self, root: Log) -> None:
        self._follow_log(root)
        if root.outs is not None:
            self._close(root, root.found, self._known_outs(root.found, root))

    def _follow_log(self, log: Log) -> Frame:
        """Propagate marks through what is new in a log."""
        frame: Frame = log.found if log.found is not None else self._open(log)
        for i, logs in log.inside:
            self._go_to(log, frame, i)
            if frame.group is None:
                self._begin(log, frame, i)
            self._follow_group(frame, logs)
        self._go_to(log, frame, len(log.results))
        log.forget()
        return frame

    def _go_to(self, log: Log, frame: Frame, end: int) -> None:
        """Propagate marks through the equations before index `end`."""
        group = frame.group
        if group is not None and group.i < end:
            self._follow_call(log, frame, group.i)
            frame.call = frame.group = None
            log.seen = group.i + 1
        self._follow_range(log, frame, end)

    def _follow_group(self, frame: Frame, logs: list[Log]) -> None:
        """Follow the jaxprs that have run inside an equation, in their order; the last of them may still run."""
        group: Group = frame.group
        n = len(logs) - (logs[-1].outs is None)
        many = Repeats(logs[:n], self.sought) if n >= FEW else None
        i = 0
        while i < n:
            end = i if many is None else group.end_of_repeats(many, i)
            if many is not None and end > i:
                met = group.skip(many, i, end, inner=frame.above is not None)
                self.events.met.update(met)
                self._go_past(frame, many, i, end)
                i = end
            elif many is not None and (pasts := group.chain(many, i, frame, self._separations)):
                self._recall_all(frame, many, i, pasts)
                i += len(pasts)
            else:
                self._follow_one(frame, group, logs[i], many, i)
                i += 1
        if many is not None:
            group.tail = [*group.tail, *many.kinds][-len(group.known) - 1 :]
        if n < len(logs):
            group.calm, group.last = 0, None
            self._follow_log(logs[n])

    def _follow_one(
        self, frame: Frame, group: Group, log: Log, many: Repeats | None, i: int
    ) -> None:
        """Follow log i of those inside an equation, and tell its group what was found if there are many (else None)."""
        events, apart, begun = self.events, self._separations, log.found is not None
        changed, met = events.changed, events.met
        active, events.changed, events.met, apart.active = apart.active, False, Counter(), False
        key = past = None
        if many is not None and not begun and (fact := many.fact(i)) is not None:
            self._open(log)
            key = tuple(log.found.entry), fact
            past = group.recall(key)
        if past is not None and many is not None:
            self._recall(many, i, past)
        else:
            inside = self._follow_log(log)
            self._call_changed = False
            outs = self._close(log, inside, self._known_outs(inside, log))
            group.apart = apart.active
            if many is None or begun:
                group.calm = 0
            else:
                # where origins of elements are told apart, each iteration may move them
                changed_here = events.changed or self._call_changed or apart.active
                group.note(many, i, outs, events.met, changed_here)
                if key is not None:
                    frames = [leaf.found for leaf in many.leaves[i]]
                    past = group.remember(key, Past(frames, outs, events.met, apart.active))
        if many is not None:
            group.link(many, i, past)
        # what is new inside of a jaxpr is new in it, too
        met.update(events.met)
        events.changed, events.met = changed or events.changed, met
        apart.active = active or apart.active

    def _recall(self, many: Repeats, i: int, past: Past) -> None:
        """Give log i what is known of an earlier one (`past`) that it repeats."""
        for made, times in past.met.items():
            made.times += times
        self.events.met.update(past.met)
        for leaf, found in zip(many.leaves[i], past.frames, strict=True):
            leaf.found, leaf.inside = found, []
        self._separations.active |= past.apart
        if many.ahead is not None:
            many.ahead.count(i, i + 1)
        self._end_as(many, i, past)

    def _end_as(self, many: Repeats, i: int, past: Past) -> None:
        """Give the results of log i the marks of those of an earlier one, and numbers where `Ahead` has them."""
        log, ahead = many.logs[i], many.ahead
        for k, (value, mark) in enumerate(zip(log.outs or (), past.outs, strict=False)):
            numbers = ahead.numbers(k, i) if mark.bad and ahead is not None else None
            if numbers is not None:
                self._separations.keep(value, numbers.copy())
        self._close(log, past.frames[0], past.outs)

    def _recall_all(self, frame: Frame, many: Repeats, start: int, pasts: Sequence[Past]) -> None:
        """Skip the logs from `start` on, each of which repeats one of `pasts`."""
        group, inner = frame.group, frame.above is not None
        self.events.met.update(group.repeat(many, start, pasts, frame.call, inner=inner))
        self._separations.active |= any(past.apart for past in pasts)
        for i in reversed(range(len(pasts))):
            if not steers(many.logs[start + i]):
                self._end_as(many, start + i, pasts[i])
                break

    def _go_past(self, frame: Frame, many: Repeats, start: int, end: int) -> None:
        """After logs in which nothing was new: note what the last one gave, and break the cycles of references in them."""
        logs = many.logs[start:end]
        last = next((log for log in reversed(logs) if not steers(log)), None)
        for leaves in many.leaves[start:end]:
            for log in leaves:
                if log.inside:
                    log.inside = []
        if frame.call is not None and last is not None:
            frame.call.outs = last.outs or ()
            if frame.call.stacks:
                stack_past(frame.call, frame.group, many, start, end)

    # -- jaxprs --------------------------------------------------------------------------------

    def _open(self, log: Log) -> Frame:
        """Make the frame of a jaxpr that has begun to run, with the marks of its arguments."""
        step = log.step()
        if step is None or log.above is None:
            frame = log.found = self.root
            self._read_arguments(log.jaxpr, log.args)
            return frame
        above: Frame = log.above.found
        frame = log.found = Frame(above, step)
        if self.at_once:
            self._cells.note_unwritten(log.args)
        call = above.call
        if call is not None and (call.marks or call.out_marks or call.by_position):
            self._pass_arguments(frame, call, log)
        if log.jaxpr.const_binders:
            self._read_constants(frame, log.jaxpr, log.args)
        return frame

    def _read_arguments(self, jaxpr: Jaxpr, args: Sequence[Any]) -> None:
        """Look for bad values among the constants and arguments of the program."""
        n_consts, source_of = len(jaxpr.const_binders), self.events.source
        for i, (v, value) in enumerate(zip(jaxpr.all_binders, args, strict=True)):
            kind, index = ("constant", i) if i < n_consts else ("argument", i - n_consts)
            source = Source(kind, index, v.name or "")
            if isinstance(value, Cell):
                if self._cells.holds_bad(value):
                    self._cells.write(value, source_of(source, value.value))
            elif is_float(v.aval) and value in self.sought:
                self.root.marks[v] = source_of(source, value)

    def _read_constants(self, frame: Frame, jaxpr: Jaxpr, args: Sequence[Any]) -> None:
        """Look for bad values among the constants of a jaxpr inside, the first time."""
        found = self._bad_consts.get(jaxpr)
        if found is None:
            found = self._bad_consts[jaxpr] = {}
            for i, v in enumerate(jaxpr.const_binders):
                if v not in frame.marks and is_float(v.aval) and args[i] in self.sought:
                    source = Source("constant", i, v.name or "")
                    found[v] = self.events.source(source, args[i])
        frame.marks.update(found)

    def _pass_arguments(self, frame: Frame, call: Call, log: Log) -> None:
        """Set the marks of the arguments of a jaxpr inside an equation."""
        binders, sought = log.jaxpr.all_binders, self.sought
        n = len(binders)
        asked: list[int] = []
        entry: list[Mark | None] = []
        for i, (v, value) in enumerate(zip(binders, log.args, strict=True)):
            mark, exact = call.mark_of(value, n - i)
            if not exact and (mark is None or mark.bad):
                bad = is_float(v.aval) and value in sought
                if is_float(v.aval):
                    asked.append(i)
                if (
                    mark is None
                ):  # neither an operand nor a result of the last iteration, but perhaps computed from some
                    mark = call.any_mark() if bad else CLEAN
                elif not bad:
                    mark = self.events.good_mark(mark.taint, mark.decided, mark.mixed)
                elif self._separations and n - i <= len(call.ins):
                    bits = self._separations.part(call.ins[i - n], log.number, value)
                    mark = mark._replace(bad=bits or mark.bad)
            entry.append(mark)
            if mark is not None and mark.taint:
                frame.marks[v] = mark
        frame.entry, frame.asked = entry, asked

    def _close(self, log: Log, frame: Frame, marks: Sequence[Mark]) -> Sequence[Mark]:
        """Note at the equation above that a jaxpr has run, with the marks of its results (empty: none is known); return them."""
        outs = log.outs or ()
        above = frame.above
        if frame.step is None or above is None:
            self.outs, self.ended = marks or [CLEAN] * len(outs), True
            return marks
        cells = self._cells.mark_of_all(log.args)
        call = above.call
        if call is None:
            if not marks and not cells.taint:
                return marks
            assert log.above is not None
            call = above.call = Call(log.above.ins(above.group.i), ())
            self._call_changed = True
        call.cells = merged([call.cells, cells])
        if steers(log):
            if marks:
                steered = merged([call.steered, *marks])
                self._call_changed |= steered != call.steered
                call.steered = steered
            return marks
        call.outs, call.out_marks = outs, marks or [CLEAN] * len(outs)
        for k, mark in enumerate(marks):
            if mark.bad and log.number is not None:
                self._separations.stack(call, log, k, mark)
            before = call.by_position.get(k)
            if before is None:
                if mark.taint:
                    call.by_position[k] = mark
                    self._call_changed = True
            elif before is not mark and mark.taint:
                both = merged([before, mark])
                if before != both:
                    call.by_position[k] = both
                    self._call_changed = True
        return marks

    def _known_outs(self, frame: Frame, log: Log) -> Sequence[Mark]:
        """Return the marks of the results of a jaxpr; an empty list where nothing is known of any."""
        literals = plans_of(log.jaxpr, self.sought).outs
        if not literals and not frame.marks:
            return []
        return self._known(frame, log.jaxpr.outs, log.outs or (), literals)

    def _known(
        self, frame: Frame, atoms: Sequence[Any], values: Sequence[Any], literals: Sequence[int]
    ) -> list[Mark]:
        """Return the marks of atoms of a frame; an empty list where nothing is known of any."""
        marks = [*map(frame.marks.get, atoms, repeat(CLEAN))]
        for i in literals:
            marks[i] = self.events.literal(frame, atoms[i], i, values[i])
        return marks if any([m is not CLEAN for m in marks]) else []  # noqa: C419 (quicker)

    # -- equations -----------------------------------------------------------------------------

    def _begin(self, log: Log, frame: Frame, i: int) -> None:
        """Begin the group of an equation that runs jaxprs."""
        frame.group, frame.masked, frame.call = Group(i), False, None
        plan = plans_of(log.jaxpr, self.sought).eqns[i]
        if frame.marks or plan.literals:
            ins = log.ins(i)
            known = self._known(frame, plan.eqn.inputs, ins, plan.literals)
            if known:
                frame.call = Call(ins, known)

    def _follow_range(self, log: Log, frame: Frame, end: int) -> None:
        """Follow the equations up to index `end` that have run and hold no jaxprs that are followed."""
        start = log.seen
        if start >= end:
            return
        log.seen = end
        plans = plans_of(log.jaxpr, self.sought)
        if self.at_once:
            for i in range(start, end):
                plan = plans.eqns[i]
                if plan.refs or plan.cells:
                    self._follow_cells(plan, frame, log, i)
                else:
                    self._follow_some(
                        plans, frame, log, i, i + 1, self._bad.few(log, plans, i, i + 1)
                    )
            return
        look = self._bad.many if end - start >= _MANY else self._bad.few
        self._follow_some(plans, frame, log, start, end, look(log, plans, start, end))

    def _follow_some(
        self, plans: Plans, frame: Frame, log: Log, start: int, end: int, bad: dict[int, Any]
    ) -> None:
        """Follow equations without jaxprs and references; bad: what `BadResults` says of those with bad results."""
        marks = frame.marks
        if not marks:
            start = min(bad, default=end)
        eqns, get, alone = plans.eqns, marks.get, frame.above is None
        i = start
        while i < end:
            if alone and bad:
                i = self._straight.go_on(plans, frame, log, i, end, bad)
                if i == end:
                    break
            plan, found = eqns[i], bad.get(i)
            if found is not None and found[2] is not None:
                frame.codes[plan.eqn.out_binders[0]] = found[2]
            known = (*map(get, plan.operands),)
            if found is not None or any(known):
                worst, spoilt, codes = found or _GOOD
                self._follow_equation(Seen(frame, log, i, plan, worst, spoilt, codes), known)
            i += 1
        frame.codes.clear()

    def _follow_equation(self, seen: Seen, known: tuple[Any, ...]) -> None:
        """Propagate marks through an equation with marked operands (`known`; None for others) or bad results."""
        plan, worst, marks = seen.plan, seen.worst, seen.frame.marks
        entries = seen.frame.context().entries
        entry = entries.get(plan.eqn)
        apart = self._separations
        if (
            entry is not None
            and entry.spoilt == seen.spoilt
            and entry.known == known
            and not (apart and seen.spoilt and any(apart.numbers(x) is not None for x in seen.ins))
        ):
            made = entry.made
            if made is None or (
                worst >> 1 <= made.count
                and (made.nan or not worst & 1)
                and not self.events.some_begin(seen, known)
            ):
                if made is not None:
                    made.times += 1
                    self.events.met[made] += 1
                elif entry.masks:
                    seen.frame.masks_inside()
                marks.update(zip(plan.eqn.out_binders, entry.marks, strict=True))
                return
        pairs = [(i, m) for i, m in zip(plan.positions, known, strict=True) if m is not None]
        result = self._entry(seen, pairs)
        if result is not None:
            self.events.changed = True
            masks = not seen.spoilt and any(m.bad for _, m in pairs)
            if result[2]:
                entries[plan.eqn] = Entry(known, seen.spoilt, *result[:2], masks)
            marks.update(zip(plan.eqn.out_binders, result[0], strict=True))

    def _entry(
        self, seen: Seen, known: Sequence[tuple[int, Mark]], *, masks: bool | None = None
    ) -> tuple[tuple[Mark, ...], Made | None, bool] | None:
        """Compute the marks of the results of an equation; None where they depend on no bad value.

        Beside them are the `Made` of the equation, if a result is bad, and whether the same marks
        of operands give these again. masks: whether it masks a bad operand, for equations on
        references; None for others.
        """
        events, eqn = self.events, seen.plan.eqn
        whole = known[0][1] if len(known) == 1 else merged([m for _, m in known])
        decided, mixed = whole.decided, whole.mixed
        if seen.plan.mixing:
            mixed |= whole.bad
        if seen.plan.steering:
            for i, m in known:
                if i in seen.plan.steering:
                    mixed |= m.bad
                    # what made a boolean has decided already, or only asked whether a value is finite
                    if eqn.inputs[i].aval.dtype.kind != "b":
                        decided |= m.felt
            if decided & ~whole.decided:
                events.decide(seen.frame, eqn, decided & ~whole.decided)
        made, known_again, bits, before = None, True, None, whole.bad
        if seen.spoilt:
            whole, bits = made_of(seen, known, whole, events, self._separations)
            (made,) = whole.made
            dropped = before & ~whole.bad
            known_again = bits is None and not dropped
            if dropped:
                events.mask(seen.frame, eqn, merged([m for _, m in known if m.bad & dropped]))
        if masks or (masks is None and not seen.spoilt and whole.bad and eqn.out_binders):
            events.mask(seen.frame, eqn, whole)
        if not whole.taint:
            return None
        if (whole.decided, whole.mixed) == (decided, mixed):
            spoiled = whole
        else:
            spoiled = whole._replace(decided=decided, mixed=mixed)
        if seen.plan.single and seen.spoilt:
            return (spoiled,), made, known_again
        good = events.good_mark(whole.taint, decided, mixed)
        marks = [spoiled if i in seen.spoilt else good for i in range(len(eqn.out_binders))]
        for k, bad in (bits or {}).items():
            marks[k] = spoiled._replace(bad=bad)
        return tuple(marks), made, known_again

    def _follow_call(self, log: Log, frame: Frame, i: int) -> None:
        """Set the marks of the results of an equation whose jaxprs have run."""
        plan, outs, events = plans_of(log.jaxpr, self.sought).eqns[i], log.given(i), self.events
        call, eqn = frame.call, plan.eqn
        if call is None:
            if not self._cells and not any(self.sought.may_hold(outs[k]) for k in plan.floats):
                return
            call = Call(log.ins(i), ())
        marks = call.marks
        decision = call.steered.felt
        if plan.steering and marks:
            decision |= merged([marks[k] for k in plan.steering]).felt
        if decision:
            events.decide(frame, eqn, decision)
        reached, dropped = list[Mark](), list[Mark]()
        for k, v in enumerate(eqn.out_binders):
            mark, exact = call.result_mark(k, outs[k])
            if mark is None:
                mark = merged([self._cells.mark_of(outs[k]), call.cells])
            if exact and (mark.bad or k not in plan.floats):
                pass  # the mark is that of this very value
            elif k in plan.floats and outs[k] in self.sought:
                if (stack := call.stacks.get(k)) is not None and stack.numbers is not None:
                    numbers = self._separations.of_bad(outs[k], stack.numbers)
                    mark = mark._replace(bad=self._separations.keep(outs[k], numbers) or mark.bad)
                if not mark.bad:  # the equation's own rule has made it
                    seen = Seen(frame, log, i, plan, self.sought.state(outs[k]), (k,))
                    mark = events.makes(seen, call.any_mark())
            elif mark.bad:  # a loop of several examples keeps what those had that are done
                dropped.append(mark)
                mark = events.good_mark(mark.taint, mark.decided, mark.mixed)
            if decision:
                taint, decided, mixed = (
                    x | decision for x in (mark.taint, mark.decided, mark.mixed)
                )
                mark = Mark(mark.made, mark.bad, taint, decided, mixed)
            if mark.taint:
                reached.append(mark)
                frame.marks[v] = mark
        if reached and not any(m.bad for m in reached) and not frame.masked:
            whole = merged([*call.marks, *dropped])
            if whole.bad:
                events.mask(frame, eqn, whole)
        calls = frame.context().calls
        if calls.get(eqn) != reached:
            calls[eqn] = reached
            events.changed = True

    # -- references ----------------------------------------------------------------------------

    def _follow_cells(self, plan: Plan, frame: Frame, log: Log, i: int) -> None:
        """Propagate marks through an equation on references, to its results and to what these point to."""
        ins, outs, events = log.ins(i), log.given(i), self.events
        get = frame.marks.get
        known = [
            (i, m) for i, x in zip(plan.positions, plan.operands, strict=True) if (m := get(x))
        ]
        known += [(i, m) for i in plan.refs if (m := self._cells.mark_of(ins[i])).taint]
        cells = [x for x in (*ins, *outs) if type(x) is Cell]
        turned = any(map(self._cells.turned_bad, cells))
        spoilt = tuple([i for i in plan.floats if outs[i] in self.sought])
        if not (known or spoilt or turned):
            return
        whole = merged([m for _, m in known])
        if turned and not spoilt:
            whole = events.makes(Seen(frame, log, i, plan, 2, ()), whole)
        masks = self._cells.drops(plan, log, i, known, spoilt)
        if plan.refs:  # a reference is read before it is written
            known = [(i, m) for i, m in known if not is_float(plan.eqn.inputs[i].aval)]
        entry = self._entry(Seen(frame, log, i, plan, 2, spoilt), known, masks=masks)
        if entry is not None:
            frame.marks.update(zip(plan.eqn.out_binders, entry[0], strict=True))
            whole = merged([whole, *entry[0]])
        for cell in cells:
            self._cells.write(cell, whole)
