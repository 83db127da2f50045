"""Loop iterations in which nothing new happens are skipped: they repeat the provenance of earlier ones.

`Repeats` holds the logs of many iterations of one equation that have run, and computes for all of
them together which values are bad (`Sought.state`). `Group` remembers what was found in the
iterations of that equation so far, and `Flow` asks it, in this order:

- `end_of_repeats`: up to which iteration the same values are bad as in one that brought nothing
  new. `skip` goes past those.
- `chain`: where origins of elements are told apart, how many iterations repeat earlier ones
  (`Past`) by their facts, which `Ahead` has computed. `repeat` goes past those.
- `recall`: whether a single iteration has the arguments and the fact of an earlier one.

All others are followed equation by equation, and `note` or `remember` keep what was found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.ahead import Ahead, Moves
from jaxprtool.analyses.blaming.bad_values import LARGE, Sought, any_in_rows
from jaxprtool.analyses.blaming.plans import Plan, is_float, plans_of
from jaxprtool.analyses.blaming.provenance import Call, Frame, Made, Mark
from jaxprtool.analyses.blaming.separation import Separations, drops_any
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.columns.flow import steering_facts
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["FEW", "Group", "Past", "Repeats", "stack_past", "steers"]

FEW = 8  # fewer logs than these are followed one by one: to look at all of them, in each loop around them, takes longer
_ROOM = 16 << 20  # bytes for the `Past`s of a group
_EACH = 5_000  # bytes that one of them takes, about
_MANY = 8  # for fewer logs, `Ahead` does not pay
_MOST_FAILED = 10  # how often the pause after an `Ahead` that knew too little is doubled, at most
_LINK = 300  # bytes to remember which `Past` follows another
_RESTLESS = 16  # after so many logs with something new there are likely to be many more
_MOST_MISSED = 300  # after so many logs in a row that repeat no earlier one, none is looked for


def steers(log: Log) -> bool:
    """Whether a log is of the jaxpr whose result decides how often a loop runs: a while's condition."""
    return log.eqn is not None and steering_facts[log.eqn.primitive] == log.param


def _kind_of(log: Log, leaves: list[Log]) -> tuple[Any, ...]:
    """Return the key of a log's kind: logs of one kind have run the same jaxprs, nested in the same way.

    leaves: gets the log and all logs inside it appended.
    """
    leaves.append(log)
    if not log.inside:
        return id(log.layout), log.branch
    found: list[Any] = [id(log.layout), log.branch]
    for i, logs in log.inside:
        found.append(i)
        for x in logs:
            if x.inside:
                found.append(_kind_of(x, leaves))
            else:  # what the recursion would do, but quicker
                leaves.append(x)
                found += (id(x.layout), x.branch)
        found.append(None)
    return (*found,)


def _looked_at(frame: Frame) -> tuple[int, ...]:
    """Return the indices of a jaxpr's arguments whose state matters: bad ones, and those that were looked at."""
    bad = [k for k, mark in enumerate(frame.entry) if mark is not None and mark.bad]
    return tuple(sorted({*frame.asked, *bad}))


class _Kind:
    """What is known of the logs of one kind, from the last one that was followed.

    Attributes:
      entry: the marks of its arguments (None where nothing is known).
      outs: the marks of its results.
      frames: its frame, and those of all logs inside.
      asked: for each of these frames, the indices of the arguments whose state matters.
      met: the equations that made bad values in it, and how often.
      row: the state of each floating result in it (`Sought.state`), of each the worst so far.
      settled: whether it brought nothing new.
    """

    __slots__ = ("asked", "entry", "frames", "met", "outs", "row", "settled")

    def __init__(self, frames: Sequence[Frame], outs: Sequence[Mark], met: Counter[Made]):
        self.frames, self.entry, self.outs, self.met = frames, frames[0].entry, outs, met
        self.asked = (*map(_looked_at, frames),)
        self.row: Any = None
        self.settled = False

    def agrees_at_ends(self, other: _Kind) -> bool:
        """Whether the marks of arguments and results are the same."""
        return self.entry == other.entry and self.outs == other.outs

    def agrees(self, other: _Kind) -> bool:
        """Whether these are the same, and the states of the same arguments matter."""
        return self.agrees_at_ends(other) and self.asked == other.asked


class Repeats:
    """The logs of many iterations, and the states of the values in them, computed for all logs of a kind together.

    Attributes:
      sought: what a bad value is.
      logs: the logs, in the order in which they ran.
      kinds: the kind of each log.
      leaves: for each log, itself and the logs inside it.
      ahead: the origins in logs that have not been followed yet, as far as they were computed; else
        None.
    """

    def __init__(self, logs: Sequence[Log], sought: Sought):
        self.sought, self.logs, self._all_drop = sought, logs, drops_any(sought)
        self.leaves: list[list[Log]] = []
        self.kinds: list[tuple[Any, ...]] = []
        self._where: dict[Any, list[int]] = {}
        for i, log in enumerate(logs):
            if log.inside:
                leaves: list[Log] = []
                key = _kind_of(log, leaves)
            else:  # what `_kind_of` would do, but quicker
                leaves, key = [log], (id(log.layout), log.branch)
            self.leaves.append(leaves)
            self.kinds.append(key)
            where = self._where.get(key)
            if where is None:
                self._where[key] = [i]
            else:
                where.append(i)
        self._rows: dict[Any, Any] = {}
        self.ahead: Ahead | None = None
        self._like: Any = None

    def row(self, i: int, known: _Kind) -> Any:
        """Return the states in log i: see `_states`."""
        key = self.kinds[i]
        return self._of(key, known)[bisect_left(self._where[key], i)]

    def fact(self, i: int) -> Any:
        """Return the fact of log i (`Ahead.facts`); None where it is not known."""
        ahead = self.ahead
        return ahead.fact(i) if ahead is not None and ahead.knows(i) else None

    def like(self, known: dict[Any, _Kind]) -> list[bool]:
        """For each log, whether it has the bad values that its kind is known to have, and no more bad elements.

        False for logs of a kind that is not known, or not settled.
        """
        key = tuple([(k, id(kind.row)) for k, kind in known.items() if kind.settled])
        if self._like is None or self._like[0] != key:
            found = [False] * len(self.kinds)
            for k, kind in known.items():
                if kind.settled and k in self._where:
                    like = _like(self._of(k, kind), kind.row)
                    for i, x in zip(self._where[k], like, strict=True):
                        found[i] = x
            self._like = key, [kind.row for kind in known.values()], found
        return self._like[2]

    def _of(self, key: Any, known: _Kind) -> Any:
        found = self._rows.get((key, known.asked))
        if found is None:
            found = self._states([self.leaves[i] for i in self._where[key]], known)
            self._rows[key, known.asked] = found
        return found

    def _states(self, logs: Sequence[list[Log]], known: _Kind) -> Any:
        """Return the states of the values in some logs of one kind: an int array [logs, columns].

        There is a column for each argument whose state matters and each floating result, with its
        state (`Sought.state`), and one for each elementwise equation, with what `_begun` says of
        it.
        """
        columns, begun = list[Any](), list[Any]()
        for same, asked in zip(zip(*logs, strict=True), known.asked, strict=True):
            jaxpr, plans = same[0].jaxpr, plans_of(same[0].jaxpr, self.sought).eqns
            atoms, values = [jaxpr.all_binders[k] for k in asked], list[Any]()
            values += [[log.args[k] for log in same] for k in asked]
            for i, plan in enumerate(plans):
                many = plan.eqn.primitive.multiple_results
                for k in plan.floats:
                    values.append([log.results[i][k] if many else log.results[i] for log in same])
                    atoms.append(plan.eqn.out_binders[k])
            found = self.sought.states_of_all(values)
            columns += found
            states = dict(zip(atoms, found, strict=True))
            for i, plan in enumerate(plans):
                if plan.single and plan.elementwise:
                    begun.append(self._begun(same, i, plan, states))
        n = len(columns)
        rows = numpy_namespace().zeros((len(logs), n + len(begun)), int)
        rows[:, n:] = 2
        for k, column in enumerate(columns + begun):
            if type(column) is not int or column != 2 * (k >= n):  # most are as filled already
                rows[:, k] = column
        return rows

    def _begun(self, same: Sequence[Log], i: int, plan: Plan, states: dict[Any, Any]) -> Any:
        """For an elementwise equation in each log, 3 if a bad element begins at it although operands are bad too; else 2.

        Returns:
          An array with an entry for each log, or 2 for all.
        """
        xp = numpy_namespace()
        made = states[plan.eqn.out_binders[0]]
        given = [states[x] for x in dict.fromkeys(plan.operands) if x in states]
        given = [x for x in given if (x if type(x) is int else x.any())]
        if not given:
            return 2
        if plan.drops or self._all_drop:  # as many may begin as are dropped
            return 2 + self._begins(same, i, plan)
        most, nan = given[0], given[0] & 1
        for x in given[1:]:
            most, nan = xp.maximum(most, x), nan | (x & 1)
        found = (made >> 1 > most >> 1) | (made & 1 > nan)
        if len(given) > 1 and xp.any(found):  # or the operands are bad in different places
            found = found & self._begins(same, i, plan)
        return 2 + found

    def _begins(self, same: Sequence[Log], i: int, plan: Plan) -> Any:
        """For each log, whether an element of the result is bad, or a NaN, at an index where no operand is."""
        xp, codes, n = numpy_namespace(), self.sought.codes, len(same)
        size = plan.eqn.out_binders[0].aval.size
        if size >= LARGE and n > 1:  # quicker, as no array is copied
            return xp.array([self._begins([log], i, plan)[0] for log in same])
        floats = [x for x in plan.operands if is_float(x.aval)]
        covers = size >= LARGE and "nan" in self.sought.kinds
        if covers and any(xp.isnan(same[0].value(x)).all() for x in floats):
            return xp.zeros(n, bool)  # every element is a NaN already
        made = codes(_stacked([log.results[i] for log in same]))
        if made is None:
            return xp.zeros(n, bool)
        for x in floats:
            found = codes(_stacked([log.value(x) for log in same]))
            if found is not None:
                made = made & ~found.reshape(n, *[1] * (made.ndim - found.ndim), *found.shape[1:])
        return any_in_rows(made)


def _stacked(values: Sequence[Any]) -> Any:
    """Return the values of one type along a new first axis."""
    xp = numpy_namespace()
    return xp.stack(values) if len(values) > 1 else xp.asarray(values[0])[None]


def _like(rows: Any, row: Any) -> Any:
    """For each row of states, whether it is bad where `row` is, and with no more elements or NaNs."""
    same = (rows > 0) == (row > 0)
    less = (rows >> 1 <= row >> 1) & (rows & 1 <= row & 1)
    return numpy_namespace().all(same & less, axis=-1).tolist()


class Past(NamedTuple):
    """A jaxpr that was followed, and what was found in it.

    Attributes:
      frames: its frame, and those of the jaxprs inside.
      outs: the marks of its results.
      met: the equations that made bad values in it, and how often.
      apart: whether origins of elements were told apart in it.
    """

    frames: Sequence[Frame]
    outs: Sequence[Mark]
    met: Counter[Made]
    apart: bool


class Group:
    """The jaxprs inside one equation that runs, as a loop's iterations, and what was found in them so far.

    Attributes:
      i: the index of the equation in its jaxpr.
      known: what is known of each kind of log.
      tail: the kinds of the logs that ran last.
      calm: how many logs in a row brought nothing new.
      restless: how many logs brought something new.
      apart: whether origins of elements were told apart in the last log that was followed.
      room: how many bytes may still be used for `past` and the links between them.
      past: the logs that were followed, by the marks of their arguments and their fact.
      missed: how many logs in a row were not among `past`.
      last: the `Past` of the last log; None where it has none.
    """

    __slots__ = (
        "_failed",
        "_links",
        "_moves",
        "_named",
        "_pause",
        "apart",
        "calm",
        "i",
        "known",
        "last",
        "missed",
        "past",
        "restless",
        "room",
        "tail",
    )

    def __init__(self, i: int):
        self.i, self.calm, self.missed, self.room, self.restless = i, 0, 0, _ROOM, 0
        self.apart = False
        self._moves: Moves | None = None
        self._pause = self._failed = 0
        self._named: dict[Any, int] = {}
        self.past: dict[Any, Past] = {}
        self.last: Past | None = None
        # a `Past` and a fact -> that `Past`, which keeps its id unique, and the next one
        self._links: dict[Any, tuple[Past, Past]] = {}
        self.known: dict[Any, _Kind] = {}
        self.tail: list[Any] = []

    def note(
        self, many: Repeats, i: int, outs: Sequence[Mark], met: Counter[Made], changed: bool
    ) -> None:
        """Remember what was found in log i, which has been followed.

        Args:
          many: the logs.
          i: the log's index.
          outs: the marks of its results.
          met: the equations that made bad values in it, and how often.
          changed: whether something became known in it.
        """
        key = many.kinds[i]
        kind = _Kind([leaf.found for leaf in many.leaves[i]], outs, met)
        before = self.known.get(key)
        kind.row = many.row(i, kind)
        if before is not None and before.agrees(kind) and _like(kind.row, before.row):
            kind.row, kind.settled = before.row, not changed
        self.known[key] = kind
        self.calm = self.calm + 1 if kind.settled else 0
        self.restless += not kind.settled
        for k, other in self.known.items():
            if k[:2] == key[:2] and not kind.agrees_at_ends(other):
                other.settled = False

    def remember(self, key: Any, past: Past) -> Past | None:
        """Keep a log that was followed under its key, and return it; None where there is no room."""
        self.room -= _EACH
        if self.room <= 0:
            return None
        self.past[key] = past
        return past

    def recall(self, key: Any) -> Past | None:
        """Return the earlier log that has this key; None where there is none."""
        found = self.past.get(key)
        self.missed = 0 if found is not None else self.missed + 1
        return found

    def recalls(self) -> bool:
        """Whether it is worthwhile to look for earlier logs with the same key."""
        return (self.apart or self.restless > _RESTLESS) and self.missed < _MOST_MISSED

    def _look_ahead(self, many: Repeats, i: int, frame: Frame, apart: Separations) -> None:
        """Compute the origins in the logs from i on (`Ahead`), where that is likely to pay; frame: the equation's."""
        if frame.call is None or many.fact(i) is not None or many.logs[i].found is not None:
            return
        if not self.recalls() or len(many.logs) - i < _MANY:
            return
        self._pause -= 1
        if self._pause >= 0:
            return
        many.ahead = ahead = Ahead(
            many.logs,
            many.kinds,
            i,
            frame.context(),
            frame.call,
            apart,
            many.sought,
            steers,
            moves=self._moves,
            named=self._named,
        )
        self._moves = ahead.moves
        self._failed = 0 if ahead.end - i >= _MANY else min(self._failed + 1, _MOST_FAILED)
        self._pause = (1 << self._failed) - 1

    def link(self, many: Repeats, i: int, past: Past | None) -> None:
        """Remember that this `Past` came after the last one, by the fact of log i; it becomes the last one.

        past: None where the log has none.
        """
        if past is not None and self.last is not None and self.room > _LINK:
            fact = many.fact(i)
            if fact is not None:
                self.room -= _LINK
                self._links[id(self.last), fact] = self.last, past
        self.last = past
        if past is not None:
            self.calm = 0

    def chain(self, many: Repeats, i: int, frame: Frame, apart: Separations) -> list[Past]:
        """Return the `Past`s that the logs from i on repeat, one for each, as far as links and facts tell.

        Args:
          many: the logs.
          i: the index of the first of them.
          frame: the frame of the equation.
          apart: the origins of elements of values that have several.
        """
        self._look_ahead(many, i, frame, apart)
        found, past, ahead = list[Past](), self.last, many.ahead
        if past is None or ahead is None or many.logs[i].found is not None:
            return found
        links, fact = self._links, ahead.fact
        for k in range(i, ahead.end):
            link = links.get((id(past), fact(k)))
            if link is None:
                break
            past = link[1]
            found.append(past)
        return found

    def repeat(
        self, many: Repeats, start: int, pasts: Sequence[Past], call: Call | None, *, inner: bool
    ) -> Counter[Made]:
        """Skip the logs from `start` on, each of which repeats one of `pasts`.

        Args:
          many: the logs.
          start: the index of the first of them.
          pasts: what each repeats.
          call: what is known at the equation, or None.
          inner: whether the equation is in a nested jaxpr, whose logs need frames.

        Returns:
          The equations that made bad values in the skipped logs, and how often.
        """
        met: Counter[Made] = Counter()
        by_id = {id(past): past for past in pasts}
        for key, n in Counter(map(id, pasts)).items():
            for made, times in by_id[key].met.items():
                met[made] += n * times
        for made, times in met.items():
            made.times += times
        ran = many.leaves[start : start + len(pasts)]
        for leaves, past in zip(ran, pasts, strict=True) if inner else ():
            for leaf, frame in zip(leaves, past.frames, strict=True):
                leaf.found = frame
        for leaves in ran:
            if len(leaves) > 1:
                for leaf in leaves:
                    leaf.inside = []
        if call is not None and call.stacks:
            _stack_chain(call, many, start, pasts)
        self.last = pasts[-1]
        if many.ahead is not None:
            many.ahead.count(start, start + len(pasts))
        return met

    def skip(self, many: Repeats, start: int, end: int, *, inner: bool) -> Counter[Made]:
        """Skip the logs from start to end, in which nothing is new.

        inner: whether the equation is in a nested jaxpr, whose logs need frames.

        Returns:
          The equations that made bad values in the skipped logs, and how often.
        """
        self.last = None
        met: Counter[Made] = Counter()
        for key, n in Counter(many.kinds[start:end]).items():
            for made, times in self.known[key].met.items():
                met[made] += n * times
        for made, times in met.items():
            made.times += times
        for i in range(start, end) if inner else ():
            frames = self.known[many.kinds[i]].frames
            for leaf, frame in zip(many.leaves[i], frames, strict=True):
                leaf.found = frame
        return met

    def end_of_repeats(self, many: Repeats, i: int) -> int:
        """Return the index of the first log, from i on, that may bring something new; i itself if log i may.

        The kinds of logs have to alternate as before: a while loop's condition and body, say.
        """
        period = len({key[:2] for key in self.known})
        if self.calm < period or not period:
            return i
        kinds, like, start = [*self.tail, *many.kinds], many.like(self.known), len(self.tail)
        n = len(like)
        if len(self.known) == 1:
            end = next((k for k in range(i, n) if not like[k]), n)
            return end if start + i else i
        while i < n and like[i] and start + i >= period:
            before, now = kinds[start + i - period], kinds[start + i]
            if before != now and before[:2] != now[:2]:
                break
            i += 1
        return i


def stack_past(call: Call, group: Group, many: Repeats, start: int, end: int) -> None:
    """Note the origins of what a loop stacks up, for logs start to end, in which nothing was new."""
    logs = [(many.logs[i], many.kinds[i]) for i in range(start, end) if not steers(many.logs[i])]
    outs = {kind: group.known[kind].outs for kind in {kind for _, kind in logs}}
    numbers = [log.number for log, _ in logs if log.number is not None]
    for k, stack in call.stacks.items() if numbers else ():
        bad = {kind: marks[k].bad for kind, marks in outs.items() if marks and marks[k].bad}
        if len({*bad.values()}) == 1:
            stack.put(slice(min(numbers), max(numbers) + 1), *{*bad.values()})
        elif bad:
            for log, kind in logs:
                if kind in bad and log.number is not None:
                    stack.put(log.number, bad[kind])


def _stack_chain(call: Call, many: Repeats, start: int, pasts: Sequence[Past]) -> None:
    """Note the origins of what a loop stacks up, for logs from `start` on that repeat `pasts`."""
    ahead = many.ahead
    assert ahead is not None
    logs = many.logs
    at = [i for i, past in enumerate(pasts, start) if past.outs and not steers(logs[i])]
    for k, stack in call.stacks.items():
        which = [i for i in at if pasts[i - start].outs[k].bad and logs[i].number is not None]
        if which:
            steps = [n for i in which if (n := logs[i].number) is not None]
            stack.put_all(steps, ahead.rows(k, which))
