"""What rounding does in each equation of a program, beside a run in a wider precision.

The program in double precision (`passes.precisions.double`) runs first, and its logs are kept (`analyses.rounding.shadow`). Then the program itself
runs in its own types. Of each equation there are two errors: what it adds, its result against the same operation on the same
operands in the wider precision; and what has come together, its result against that of the wider run. Where the two runs take
other branches or another number of steps, what is inside has no second error. Many equations, and many steps of a loop, are
measured together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.logs import Log, Logging
from jaxprtool.analyses.places import Place, Step
from jaxprtool.analyses.rounding.causes import amplified_by, is_read, scores
from jaxprtool.analyses.rounding.precision_pairs import Block, Group, Pair
from jaxprtool.analyses.rounding.shadow import Shadow, inside, is_looked_at
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Jaxpr

__all__ = ["Errors", "Measure", "Worst"]


class Errors:
    """The errors of one equation, in all steps of the loops around it.

    Attributes:
      place: where the error that it adds is largest.
      count: how often it ran where it was looked at.
      local: what it adds, in units in the last place; None where that is not known.
      local_relative: the same relative to the largest element.
      total: what has come together in its result, in units in the last place; None where that is not known.
      amplification: how many times larger the relative error of the result is than those of the operands.
    """

    __slots__ = ("amplification", "count", "local", "local_relative", "place", "total")

    def __init__(self, place: Place, count: int, numbers: Sequence[float]):
        self.place, self.count = place, count
        known = [None if x < 0 else float(x) for x in numbers]
        local, relative, total, amplification = known[:4]
        self.local, self.total, self.amplification = local, total, amplification
        self.local_relative = relative or 0.0


class Table:
    """The errors of the equations of a jaxpr so far: by column (`Pair`), negative where one is not known.

    Attributes:
      numbers: five rows: what is added, in units in the last place and relative to the largest element; what has come
        together; how many times larger the relative error is than those of the operands, and by how much.
      paths: where what is added is largest.
      counts: how often each equation ran.
    """

    __slots__ = ("counts", "numbers", "pair", "paths")

    def __init__(self, pair: Pair):
        xp = numpy_namespace()
        self.pair = pair
        self.numbers = xp.full((5, len(pair.columns)), -1.0)
        self.paths: list[tuple[Step, ...]] = [()] * len(pair.columns)
        self.counts = xp.zeros(len(pair.columns), xp.int64)

    def note(self, block: Block, runs: Sequence[_Run], found: Any) -> None:
        """Add the errors that were found in several logs."""
        xp, columns = numpy_namespace(), block.columns
        before, most = self.numbers[:, columns], found.max(axis=1)
        if any(run.path for run in runs):
            new = (most[0] > before[0]) | (self.counts[columns] == 0)
            which = found[0].argmax(axis=0)
            for n in xp.flatnonzero(new).tolist():
                self.paths[columns[n]] = runs[which[n]].path
        self.numbers[:, columns] = xp.maximum(before, most)
        self.counts[columns] += len(runs)


class _Run:
    """A log of the program, beside the log of the wider run; None where that has taken another way.

    Attributes:
      relative: of each column the relative error that has come together, NaN where it is not known.
      path: the way to it.
    """

    __slots__ = ("_inside", "pair", "path", "relative", "shadow")

    def __init__(self, pair: Pair, shadow: Log | None, path: tuple[Step, ...]):
        self.pair, self.shadow, self.path = pair, shadow, path
        self.relative = numpy_namespace().full(len(pair.columns) + 1, -1.0)
        self._inside: dict[tuple[Any, ...], list[Log]] | None = None

    def counterpart(self, i: int, inner: Log) -> Log | None:
        """The log of the wider run for one inside equation i."""
        if self.shadow is None:
            return None
        if self._inside is None:
            self._inside = inside(self.shadow)
        key = self.pair.positions[i], inner.param, inner.branch, inner.number
        found = self._inside.get(key)
        return found.pop(0) if found else None


class Measure(Logging):
    """Watches the program itself, beside what a `Shadow` has kept.

    Attributes:
      tables: by the pair of a jaxpr and its wider one.
    """

    def __init__(self, shadow: Shadow, pair_of: Callable[[Jaxpr, Log | None, Any], Pair]):
        super().__init__()
        from jaxprtool.backends import rounding  # noqa: PLC0415 (gateway: NumPy)

        self.rounding = rounding
        self.shadow, self.pair_of = shadow, pair_of
        self.tables: dict[Pair, Table] = {}
        self._tasks: dict[Block, list[Log]] = {}

    def takes(self, step: int | None) -> bool:
        return is_looked_at(step)

    def look(self, root: Log) -> None:
        if root.found is None:
            pair = self.pair_of(root.jaxpr, self.shadow.root, None)
            root.found = _Run(pair, self.shadow.root, ())
        self._collect(root)
        if self._tasks:
            self._measure([_Task(block, logs) for block, logs in self._tasks.items()])
        self._tasks.clear()
        self._forget(root)

    def _collect(self, log: Log) -> None:
        """Say what there is to measure in a log and in those inside."""
        run: _Run = log.found
        n = len(log.results)
        for i, logs in log.inside:
            for inner in logs:
                if inner.found is None:
                    shadow = run.counterpart(i, inner)
                    pair = self.pair_of(inner.jaxpr, shadow, (run.pair, i, inner))
                    path = (*run.path, step) if (step := inner.step()) is not None else run.path
                    inner.found = _Run(pair, shadow, path)
                self._collect(inner)
        if n > log.seen:
            block = run.pair.block(log.seen, n)
            if block.columns:
                self._tasks.setdefault(block, []).append(log)

    def _forget(self, log: Log) -> None:
        """Let go of what was measured."""
        log.inside = [(i, logs[-1:]) for i, logs in log.inside[-1:] if logs[-1].outs is None]
        for _, logs in log.inside:
            self._forget(logs[0])
        log.forget()

    def _measure(self, tasks: Sequence[_Task]) -> None:
        """Measure equations, the same ones in several logs and others; values of one type together, whichever gives them."""
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
        """Add the errors that were found to those of the jaxpr."""
        xp, block = numpy_namespace(), task.block
        runs: list[_Run] = [log.found for log in task.logs]
        found = found.reshape(5, len(runs), -1)
        found[:2, :, ~block.measured] = -1.0
        found[2:4, ~xp.array([known for known, _ in task.shadows])] = -1.0
        table = self.tables.get(block.pair)
        if table is None:
            table = self.tables[block.pair] = Table(block.pair)
        _amplify(block, runs, found)
        table.note(block, runs, found)

    def _shadows(self, block: Block, run: _Run, own: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Which columns the wider run has, and its values of them; its own value in the place of one that it has not."""
        log = run.shadow
        if log is None or len(log.results) < block.last:
            return numpy_namespace().zeros(len(own), bool), own
        return block.paired, block.shadows(log, own, self.shadow)

    def _done_again(self, block: Block, log: Log, wide: Sequence[Any]) -> list[Any]:
        """The results of the same operations on the same operands in the wider precision; of others, what they are."""
        widened = self.shadow.widened
        needed = [widened(log.value(x)) if rounded else log.value(x) for x, rounded in block.needed]
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
    """Some equations of a jaxpr that are measured, in several logs.

    Attributes:
      block: the equations; logs: the logs.
      start, size: where their errors are among those of all tasks, a row of columns for each log.
      wide: the values of the columns in the wider precision, for each log.
      again: the results of the same operations on the same operands in the wider precision.
      shadows: which columns the wider run has, and its values of them.
    """

    __slots__ = ("again", "block", "logs", "shadows", "size", "start", "wide")

    def __init__(self, block: Block, logs: Sequence[Log]):
        self.block, self.logs = block, logs
        self.start, self.size = 0, len(logs) * len(block.columns)
        self.wide: list[list[Any]] = [[None] * len(block.columns) for _ in logs]
        self.again: list[list[Any]] = []
        self.shadows: list[tuple[Any, Sequence[Any]]] = []


class _Together:
    """The values of one type of several tasks: scalars, or arrays.

    Attributes:
      values: what the program has.
      places: for each value the list and the position where the same goes in the wider precision.
      at: parts of an array that says where the errors of the values go.
      parts: each group of columns with its task.
      wide: the values in the wider precision (`rounding.Widened`).
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
        """The values that were done again, and those of the wider run."""
        done: list[Any] = []
        shadows: list[Any] = []
        for task, group in self.parts:
            for again, (_, shadow) in zip(task.again, task.shadows, strict=True):
                done += group.pick(again)
                shadows += group.pick(shadow)
        return done, shadows


def _by_type(tasks: Sequence[_Task]) -> dict[Any, _Together]:
    """The values of tasks by their type, and whether they are scalars; says where the errors of each task are."""
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
    """Put how many times larger relative errors are than those of the operands, and by how much, where the relative errors are."""
    xp = numpy_namespace()
    relative = found[3]
    for run, row in zip(runs, relative, strict=True):
        run.relative[block.columns] = row
    before = xp.stack([run.relative for run in runs])[:, block.operands].max(axis=2)
    known = (before > 0) & (relative >= 0)
    grown = xp.where(known & (found[1] >= 0), relative - before, -1.0)
    found[3] = xp.where(known, relative / xp.where(known, before, 1.0), -1.0)
    found[4] = grown


class Worst(Sequence[Errors]):
    """The errors of all equations, the one that adds most first. They are made when they are asked for.

    Equations of which nothing depends come last.

    Args:
      tables: the errors of the equations of each jaxpr.
      written: gives the place in the program of a place that has run (`analyses.sites`).
      amplified: how far results are off, where that comes from what is amplified: as much the equation counts that amplifies most
        (`causes.scores`). 0: what is amplified does not count.
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

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        t, n = self._order[i]
        table = self._tables[t]
        column = table.pair.firsts[n]
        place = Place(table.pair.eqn(column), table.paths[column])
        return Errors(self._written(place), int(table.counts[column]), self._numbers[t][:, n])


def _begin(jaxpr: Jaxpr) -> int:
    """Where the equations of a jaxpr begin in the text."""
    return min([eqn.span.start for eqn in jaxpr.eqns if eqn.span is not None], default=0)
