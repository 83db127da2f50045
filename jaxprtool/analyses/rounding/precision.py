"""Measure what rounding does in each equation of a program, against a run in a wider precision.

The program in the wider precision (`passes.precisions.double`) runs first, and a `Shadow` keeps its
logs (`analyses.rounding.shadow`). Then `Measure` observes the program itself, in its own types.
Each equation has two errors: the local one, which it adds, is its result against the same operation
on the same operands in the wider precision; the total one, which has accumulated, is its result
against that of the wider run. Where the two runs take other branches or another number of
iterations, equations inside have no total error. Many equations, and many iterations of a loop, are
measured together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.logs import Layout, Log, Logging
from jaxprtool.analyses.places import Place, Step
from jaxprtool.analyses.rounding.causes import amplified_by, is_read, scores
from jaxprtool.analyses.rounding.precision_pairs import Block, Group, Pair
from jaxprtool.analyses.rounding.shadow import Shadow, is_looked_at
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Jaxpr

__all__ = ["Errors", "Measure", "Worst"]


class Errors:
    """The errors of one equation, over all iterations of the loops around it.

    Attributes:
      place: where the error that it adds is largest.
      count: how often it ran where it was measured.
      local: the error that it adds, in units in the last place; None where that is not known.
      local_relative: the same, relative to the largest element; 0 where it is not known.
      total: the error that has accumulated in its result, in units in the last place; None where
        that is not known.
      amplification: the relative error of the result, divided by the largest one of the operands;
        None where that is not known.
    """

    __slots__ = ("amplification", "count", "local", "local_relative", "place", "total")

    def __init__(self, place: Place, count: int, numbers: Sequence[float]):
        self.place, self.count = place, count
        known = [None if x < 0 else float(x) for x in numbers]
        local, relative, total, amplification = known[:4]
        self.local, self.total, self.amplification = local, total, amplification
        self.local_relative = relative or 0.0


class Table:
    """The largest errors of the equations of a jaxpr so far, by column of a `Pair`; negative where one is not known.

    Attributes:
      pair: the jaxpr, beside its wider one.
      numbers: [5, columns]: the local error in units in the last place; the local error relative to
        the largest element; the total error in units in the last place; the amplification of the
        relative error; and by how much that has grown.
      paths: for each column, the way to the place where the local error is largest.
      counts: for each column, how often its equation ran.
    """

    __slots__ = ("counts", "numbers", "pair", "paths")

    def __init__(self, pair: Pair):
        xp = numpy_namespace()
        self.pair = pair
        self.numbers = xp.full((5, len(pair.columns)), -1.0)
        self.paths: list[tuple[Step, ...]] = [()] * len(pair.columns)
        self.counts = xp.zeros(len(pair.columns), xp.int64)

    def note(self, block: Block, runs: Sequence[_Run], found: Any) -> None:
        """Take in the errors of a block that were found in several logs: [5, logs, columns]."""
        xp, columns = numpy_namespace(), block.columns
        before, most = self.numbers[:, columns], found.max(axis=1)
        if any(run.inside for run in runs):
            new = (most[0] > before[0]) | (self.counts[columns] == 0)
            which = found[0].argmax(axis=0)
            for n in xp.flatnonzero(new).tolist():
                self.paths[columns[n]] = runs[which[n]].path
        self.numbers[:, columns] = xp.maximum(before, most)
        self.counts[columns] += len(runs)


class _Run:
    """A log of the program, beside the log of the wider run.

    Attributes:
      pair: the jaxprs of both.
      shadow: the log of the wider run; None where that has taken another way.
    """

    __slots__ = ("_above", "_inside", "_path", "_relative", "_step", "pair", "shadow")

    def __init__(self, pair: Pair, shadow: Log | None, above: _Run | None, log: Log):
        self.pair, self.shadow = pair, shadow
        self._above, self._step = above, log.held_by()
        self._path: tuple[Step, ...] | None = None
        self._relative: Any = None
        self._inside: dict[int | None, _Waiting] | None = None

    @property
    def path(self) -> tuple[Step, ...]:
        """The way to the jaxpr."""
        if self._path is None:
            around = () if self._above is None else self._above.path
            step = self._step()
            self._path = around if step is None else (*around, step)
        return self._path

    @property
    def inside(self) -> bool:
        """Whether it is a jaxpr inside of the program."""
        return self._above is not None

    @property
    def relative(self) -> Any:
        """For each column, and one more for none, the total relative error; negative where it is not known."""
        if self._relative is None:
            self._relative = numpy_namespace().full(len(self.pair.columns) + 1, -1.0)
        return self._relative

    def counterpart(self, i: int, inner: Log) -> Log | None:
        """Return the log of the wider run for a log inside equation i; None where it has none."""
        if self.shadow is None:
            return None
        if self._inside is None:
            self._inside = {}
            for j, logs in self.shadow.inside:
                self._inside.setdefault(j, _Waiting()).logs.extend(logs)
        waiting = self._inside.get(self.pair.positions[i])
        return None if waiting is None else waiting.take(inner)


class _Waiting:
    """The logs of the wider run inside an equation for which no log of the program has come yet.

    Attributes:
      logs: all logs, in order.
    """

    __slots__ = ("_by_key", "_next", "logs")

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self._next = 0
        self._by_key: dict[Any, list[Log]] | None = None

    def take(self, log: Log) -> Log | None:
        """Return the first one that is of the same jaxpr, branch and iteration; None where there is none."""
        if self._by_key is None:
            if self._next == len(self.logs):
                return None
            found = self.logs[self._next]
            if (found.number, found.branch, found.param) == (log.number, log.branch, log.param):
                self._next += 1
                return found
            self._by_key = {}
            for other in self.logs[self._next :]:
                key = other.number, other.branch, other.param
                self._by_key.setdefault(key, []).append(other)
        same = self._by_key.get((log.number, log.branch, log.param))
        return same.pop(0) if same else None


class Measure(Logging):
    """Observes the program itself, and measures it against what a `Shadow` has kept.

    Attributes:
      rounding: the module `backends.rounding`.
      shadow: the wider run.
      pair_of: returns the pair of a jaxpr (`precision_pairs.pairing`).
      tables: the errors, by pair.
    """

    def __init__(self, shadow: Shadow, pair_of: Callable[[Jaxpr, Log | None, Any], Pair]):
        super().__init__()
        from jaxprtool.backends import rounding  # noqa: PLC0415 (gateway: NumPy)

        self.rounding = rounding
        rounding.keep_freed_memory()
        self.shadow, self.pair_of = shadow, pair_of
        self.tables: dict[Pair, Table] = {}
        self._tasks: dict[Block, list[Log]] = {}
        self._pairs: dict[tuple[Layout, Layout | None], Pair] = {}

    def takes(self, step: int | None) -> bool:
        return is_looked_at(step)

    def look(self, root: Log) -> None:
        if root.found is None:
            pair = self.pair_of(root.jaxpr, self.shadow.root, None)
            root.found = _Run(pair, self.shadow.root, None, root)
        self._collect(root)
        if self._tasks:
            self._measure([_Task(block, logs) for block, logs in self._tasks.items()])
        self._tasks.clear()
        self._forget(root)

    def _collect(self, log: Log) -> None:
        """Collect what there is to measure in a log and in those inside."""
        run: _Run = log.found
        n = len(log.results)
        for i, logs in log.inside:
            for inner in logs:
                if inner.found is None:
                    shadow = run.counterpart(i, inner)
                    key = inner.layout, None if shadow is None else shadow.layout
                    pair = self._pairs.get(key)
                    if pair is None:
                        pair = self.pair_of(inner.jaxpr, shadow, (run.pair, i, inner))
                        if shadow is not None:
                            self._pairs[key] = pair
                    inner.found = _Run(pair, shadow, run, inner)
                self._collect(inner)
        if n > log.seen:
            block = run.pair.block(log.seen, n)
            if block.columns:
                self._tasks.setdefault(block, []).append(log)

    def _forget(self, log: Log) -> None:
        """Drop what was measured."""
        log.inside = [(i, logs[-1:]) for i, logs in log.inside[-1:] if logs[-1].outs is None]
        for _, logs in log.inside:
            self._forget(logs[0])
        log.forget()

    def _measure(self, tasks: Sequence[_Task]) -> None:
        """Measure tasks; values of one type are measured together, whichever equation gives them."""
        xp, groups = numpy_namespace(), _by_type(tasks)
        for group in groups.values():
            group.wide = self.rounding.widened(group.values, self.shadow.widened)
            for (own, c), x in zip(group.places, group.wide.values, strict=True):
                own[c] = x
        for task in tasks:
            block, logs, wide = task.block, task.logs, task.wide
            pairs = zip(logs, wide, strict=True)
            task.again = [self._done_again(block, log, own) for log, own in pairs]
            pairs = zip(logs, wide, strict=True)
            task.shadows = [self._shadows(block, log.found, own) for log, own in pairs]
        found = xp.empty((5, sum(task.size for task in tasks)))
        for (dtype, _), group in groups.items():
            errors = self.rounding.errors(dtype, group.wide, group.exact())
            found[:4, xp.concatenate(group.at)] = errors.reshape(4, -1)
        for task in tasks:
            self._note(task, found[:, task.start : task.start + task.size])

    def _note(self, task: _Task, found: Any) -> None:
        """Take the errors of a task, [5, logs * columns], into the table of its jaxpr."""
        xp, block = numpy_namespace(), task.block
        runs: list[_Run] = [log.found for log in task.logs]
        found = found.reshape(5, len(runs), -1)
        if block.copies:
            columns, sources = zip(*block.copies, strict=True)
            found[2:4, :, columns] = found[2:4][:, :, sources]
        found[:2, :, ~block.measured] = -1.0
        found[2:4, ~xp.array([known for known, _ in task.shadows])] = -1.0
        table = self.tables.get(block.pair)
        if table is None:
            table = self.tables[block.pair] = Table(block.pair)
        _amplify(block, runs, found)
        table.note(block, runs, found)

    def _shadows(self, block: Block, run: _Run, own: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Return which columns the wider run has, and its values of them; the program's own value stands for one that it has not."""
        log = run.shadow
        if log is None or len(log.results) < block.last:
            return numpy_namespace().zeros(len(own), bool), own
        return block.paired, block.shadows(log, own, self.shadow)

    def _done_again(self, block: Block, log: Log, wide: Sequence[Any]) -> list[Any]:
        """Return the columns computed again in the wider precision, from the program's operands; columns that cannot be are just widened."""
        widened = self.shadow.widened
        given = block.given(log)
        needed = [widened(x) if r else x for x, (_, r) in zip(given, block.needed, strict=True)]
        env = [*wide, *needed, *block.literals]
        found = [*wide]
        for f, pick, several, outs in block.code:
            if not several:
                found[outs[0][1]] = f(*pick(env))
                continue
            result = f(*pick(env))
            for k, c in outs:
                found[c] = result[k]
        return found


class _Task:
    """A block of equations that is measured, in several logs.

    Attributes:
      block: the equations.
      logs: the logs.
      start: where their errors begin among those of all tasks.
      size: how many errors there are: a row of columns for each log.
      wide: for each log, the values of the columns, widened.
      again: for each log, the values of the columns computed again in the wider precision.
      shadows: for each log, which columns the wider run has, and its values of them.
    """

    __slots__ = ("again", "block", "logs", "shadows", "size", "start", "wide")

    def __init__(self, block: Block, logs: Sequence[Log]):
        self.block, self.logs = block, logs
        self.start, self.size = 0, len(logs) * len(block.columns)
        self.wide: list[list[Any]] = [[None] * len(block.columns) for _ in logs]
        self.again: list[list[Any]] = []
        self.shadows: list[tuple[Any, Sequence[Any]]] = []


class _Together:
    """The values of one type in several tasks: all scalars, or all arrays.

    Attributes:
      values: the program's values.
      places: for each value the list and the index where the widened value goes.
      at: index arrays that, concatenated, say where the error of each value goes.
      parts: the groups of columns, each with its task.
      wide: the widened values (`rounding.Widened`).
    """

    __slots__ = ("at", "parts", "places", "values", "wide")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.places: list[tuple[list[Any], int]] = []
        self.at: list[Any] = []
        self.parts: list[tuple[_Task, Group]] = []
        self.wide: Any = None

    def add(self, task: _Task, group: Group, values: Sequence[Any]) -> None:
        """Add the values of some columns in all logs of a task."""
        where, n = group.where, len(task.block.columns)
        self.parts.append((task, group))
        for row, own in zip(values, task.wide, strict=True):
            self.values += group.pick(row)
            self.places += [(own, c) for c in where]
        rows = task.start + n * numpy_namespace().arange(len(values))
        self.at.append((rows[:, None] + where).reshape(-1))

    def exact(self) -> tuple[list[Any], list[Any]]:
        """Return the values that were computed again, and those of the wider run."""
        done: list[Any] = []
        shadows: list[Any] = []
        for task, group in self.parts:
            for again, (_, shadow) in zip(task.again, task.shadows, strict=True):
                done += group.pick(again)
                shadows += group.pick(shadow)
        return done, shadows


def _by_type(tasks: Sequence[_Task]) -> dict[Any, _Together]:
    """Group the values of tasks by type, and by whether they are scalars; set `start` of each task."""
    found: dict[Any, _Together] = {}
    start = 0
    for task in tasks:
        task.start = start
        start += task.size
        values = [task.block.values(log) for log in task.logs]
        for group in task.block.groups:
            key = values[0][group.where[0]].dtype, group.scalars
            found.setdefault(key, _Together()).add(task, group, values)
    return found


def _amplify(block: Block, runs: Sequence[_Run], found: Any) -> None:
    """Replace the total relative errors, found[3], by their amplification; put into found[4] by how much they grow."""
    xp = numpy_namespace()
    relative = found[3]
    if block.whole:
        known = xp.full((len(runs), len(block.columns) + 1), -1.0)
        known[:, :-1] = relative
    else:
        for run, row in zip(runs, relative, strict=True):
            run.relative[block.columns] = row
        known = xp.stack([run.relative for run in runs])
    before = known[:, block.operands].max(axis=2)
    known = (before > 0) & (relative >= 0)
    grown = xp.where(known & (found[1] >= 0), relative - before, -1.0)
    found[3] = xp.where(known, relative / xp.where(known, before, 1.0), -1.0)
    found[4] = grown


class Worst(Sequence[Errors]):
    """The errors of all equations, the one that adds most first. Each `Errors` is made when it is asked for.

    Equations that no result depends on come last.

    Args:
      tables: the errors of the equations of each jaxpr.
      written: returns the place in the program of a place that has run (`analyses.sites`).
      amplified: how far results are off, where that comes from amplification: the equation that
        amplifies most (`causes.scores`) counts as if it added that much. 0: amplification does not
        count.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        written: Callable[[Place], Place],
        amplified: float = 0.0,
    ):
        xp, self._written = numpy_namespace(), written
        some = [table for table in tables if len(table.counts)]
        in_order = sorted(some, key=lambda table: _begin(table.pair.own)) if len(some) > 1 else some
        self._tables = in_order
        self._numbers = [
            xp.maximum.reduceat(amplified_by(t.pair, t.numbers), t.pair.firsts, axis=1)
            for t in self._tables
        ]
        adds = [xp.maximum(numbers[1], 0.0) for numbers in self._numbers]
        if amplified > 0:
            found = [scores(numbers, amplified) for numbers in self._numbers]
            most = max([float(x.max()) for x in found], default=0.0) or 1.0
            pairs = zip(adds, found, strict=True)
            adds = [xp.maximum(x, amplified * y / most) for x, y in pairs]
        read = [xp.logical_or.reduceat(is_read(t.pair), t.pair.firsts) for t in self._tables]
        adds = [xp.where(r, x, -1.0) for r, x in zip(read, adds, strict=True)]
        order = xp.argsort(-xp.concatenate(adds), kind="stable") if adds else xp.empty(0, int)
        sizes = [len(x) for x in adds]
        table = xp.repeat(xp.arange(len(adds)), sizes)
        which = xp.concatenate([xp.arange(n) for n in sizes]) if adds else order
        self._order = [*zip(table[order].tolist(), which[order].tolist(), strict=True)]
        self._same: dict[tuple[int, int], list[tuple[int, int]]] = {}
        if any(step.mesh is not None for t in self._tables for step in _inside(t)):
            self._join_devices()

    def _join_devices(self) -> None:
        """Make one row of the equations that run in the place of one: for all devices of a mesh at once, and for each."""
        first: dict[Any, tuple[int, int]] = {}
        for at in self._order:
            place = self._place(*at)
            path = [(s.eqn, s.param, s.branch) for s in place.path if not s.device]
            self._same.setdefault(first.setdefault((place.eqn, *path), at), []).append(at)
        self._order = [*self._same]

    def _place(self, t: int, n: int) -> Place:
        """Return the place of an equation of a table, as it is written."""
        table = self._tables[t]
        column = table.pair.firsts[n]
        return self._written(Place(table.pair.eqn(column), table.paths[column]))

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        at = self._order[i]
        place, same = self._place(*at), self._same.get(at, [at])
        counts = [int(self._tables[t].counts[self._tables[t].pair.firsts[n]]) for t, n in same]
        # one that holds jaxprs runs for all devices, and inside of it for each
        count = max(counts) if place.eqn.primitive.holds_jaxprs else sum(counts)
        numbers = numpy_namespace().maximum.reduce([self._numbers[t][:, n] for t, n in same])
        return Errors(place, count, numbers)


def _inside(table: Table) -> tuple[Step, ...]:
    """Return the way to a jaxpr; () to that of the program."""
    return next(filter(None, table.paths), ())


def _begin(jaxpr: Jaxpr) -> int:
    """Return where the equations of a jaxpr begin in the text."""
    return min([eqn.span.start for eqn in jaxpr.eqns if eqn.span is not None], default=0)
