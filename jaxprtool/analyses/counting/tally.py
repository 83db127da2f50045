"""How often the equations of a program are executed, and sums over them: loops times their iterations, branches as ranges.

Each jaxpr is measured once, however often it is used: `tally` goes through the jaxprs from the
inside out (`in_order`), and adds the sums of nested ones to those of the jaxpr around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxprtool.analyses.places import Place, Step
from jaxprtool.core.bind import state
from jaxprtool.interpreters.columns.runs import Run, runs_of
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn

__all__ = [
    "ALL",
    "Count",
    "Entry",
    "Nested",
    "Site",
    "Table",
    "Within",
    "in_order",
    "nested_runs",
    "sites",
    "tally",
]


class Count(NamedTuple):
    """A number that branches and loops leave open.

    Attributes:
      low: the least that it can be.
      high: the most; None where it is not known, as the length of a loop is not.
    """

    low: int = 0
    high: int | None = 0

    def __add__(self, other: Any) -> Count:
        high = None if self.high is None or other.high is None else self.high + other.high
        return Count(self.low + other.low, high)

    def __mul__(self, other: Any) -> Count:
        """The product of two counts; 0 times unknown is 0."""
        if self.high == 0 or other.high == 0:
            return Count()
        high = None if self.high is None or other.high is None else self.high * other.high
        return Count(self.low * other.low, high)

    @property
    def exact(self) -> int | None:
        """The number, where it is known."""
        return self.low if self.low == self.high else None

    def json(self) -> dict[str, int | None]:
        """The number with the keys low and high."""
        return {"low": self.low, "high": self.high}

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low:,} + unknown" if self.low else "unknown"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


def times_of(run: Run, trips: int | None) -> Count:
    """Return how often a jaxpr runs when its equation does, where loops of unknown length take `trips` iterations (None: unknown)."""
    if run.branch is not None:
        return Count(0, 1)
    if not run.turns:
        return Count(run.times, run.times)
    if trips is None:
        return Count(run.times, None)
    times = run.times + run.turns * trips
    return Count(times, times)


# The equations of a jaxpr that run other jaxprs, with what they run.
Nested = Sequence[tuple[JaxprEqn, Sequence[Run]]]


def nested_runs(jaxpr: Jaxpr) -> Nested:
    """Return the equations of a jaxpr that run other jaxprs, with what they run."""
    found = [(eqn, runs_of(eqn)) for eqn in jaxpr.eqns if eqn.primitive.holds_jaxprs]
    return [(eqn, runs) for eqn, runs in found if runs]


def in_order(root: Jaxpr) -> dict[Jaxpr, Nested]:
    """Return the jaxprs that a program runs, each once, after all those that it runs itself."""
    return after_nested(root, nested_runs)


Holding = TypeVar("Holding", bound=tuple[Any, ...])


def after_nested(
    root: Jaxpr, nested_in: Callable[[Jaxpr], Sequence[Holding]]
) -> dict[Jaxpr, Sequence[Holding]]:
    """Return the jaxprs of a program, each once and after those inside it, with what `nested_in` gives for it. Not recursive.

    Args:
      root: the program.
      nested_in: returns what in a jaxpr holds others: tuples whose last element is the runs.
    """
    found: dict[Jaxpr, Sequence[Holding]] = {}
    open_: dict[Jaxpr, Sequence[Holding]] = {}
    stack = [root]
    while stack:
        jaxpr = stack[-1]
        if jaxpr in found:
            stack.pop()
        elif jaxpr in open_:
            found[jaxpr] = open_[jaxpr]
            stack.pop()
        else:
            nested = open_[jaxpr] = nested_in(jaxpr)
            stack += [run.jaxpr.jaxpr for holding in reversed(nested) for run in holding[-1]]
    return found


# -- where equations are, and how often they are executed ---------------------------------------------


class Site:
    """A jaxpr that a program runs.

    Attributes:
      jaxpr: the jaxpr.
      step: the equation that runs it, on the first way to it; None for the program itself.
      above: the site of that equation.
      times: how often it runs.
      ways: in how many places it is used; 0 for the program itself.
      devices: on how many devices it runs at the same time.
      axes: the names of axes in scope in it, as `bound_axes` has them; None: no name.
    """

    __slots__ = ("above", "axes", "devices", "jaxpr", "step", "times", "ways")

    def __init__(self, jaxpr: Jaxpr, step: Step | None = None, above: Site | None = None):
        self.jaxpr, self.step, self.above = jaxpr, step, above
        self.times, self.ways, self.devices, self.axes = Count(), 0, 1, None

    @property
    def path(self) -> tuple[Step, ...]:
        """The way to it, the outermost enclosing equation first."""
        found: list[Step] = []
        site: Site | None = self
        while site is not None and site.step is not None:
            found.append(site.step)
            site = site.above
        return tuple(reversed(found))

    def place(self, eqn: JaxprEqn) -> Place:
        """The place of an equation of it."""
        return Place(eqn, self.path)


def sites(order: dict[Jaxpr, Nested], trips: int | None) -> list[Site]:
    """Return the jaxprs that a program runs, the program first and each before those that it runs.

    Args:
      order: `in_order` of the program.
      trips: the iterations of a loop whose length is not known; None: unknown.
    """
    jaxprs = [*reversed(order)]
    found = {jaxprs[0]: Site(jaxprs[0])}
    found[jaxprs[0]].times = Count(1, 1)
    for jaxpr in jaxprs:
        site = found[jaxpr]
        for eqn, runs in order[jaxpr]:
            for run in runs:
                inner = run.jaxpr.jaxpr
                below = found.get(inner)
                if below is None:
                    below = found[inner] = Site(inner, Step(eqn, run.param, run.branch), site)
                    below.devices = site.devices * run.devices
                    below.axes = _axes_inside(eqn, site)
                below.ways += 1
                below.times += site.times * times_of(run, trips)
    return [found[jaxpr] for jaxpr in jaxprs]


def _axes_inside(eqn: JaxprEqn, site: Site) -> Any:
    if eqn.primitive.binds is None:
        return site.axes
    outer, state.axes = state.axes, site.axes
    try:
        return eqn.primitive.binds(eqn.params)
    finally:
        state.axes = outer


# -- sums by key --------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """Sums over equations.

    Attributes:
      written: how many equations there are, each as often as its jaxpr is used.
      counts: sums of figures over the executed equations.
    """

    written: int
    counts: tuple[Count, ...]

    def __add__(self, other: Any) -> Entry:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Entry(self.written + other.written, tuple(counts))

    def run(self, times: Count) -> Entry:
        """Return the sums where the equations are executed `times` as often."""
        return Entry(self.written, tuple([c * times for c in self.counts]))


Table = dict[Any, Entry]
ALL = object()  # the key of a table for all equations


# How an equation changes the keys of the equations that it runs: a number that is added, a function of the key,
# a text that replaces None, or None for no change.
Within = Callable[[JaxprEqn], "Callable[[Any], Any] | int | str | None"]


class _Sums(NamedTuple):
    """A table whose keys are less by `shift` than they should be, so that a number can be added to all of them at no cost."""

    table: Table
    shift: int = 0

    def items(self) -> Iterator[tuple[Any, Entry]]:
        """Yield the keys and sums."""
        shift = self.shift
        return ((_moved(key, shift), entry) for key, entry in self.table.items())


def _moved(key: Any, by: int) -> Any:
    return key if key is ALL or not by else key + by


def tally(
    order: dict[Jaxpr, Nested],
    measure: Callable[[Jaxpr], Table],
    within: Within,
    trips: int | None,
) -> Table:
    """Sum over all equations of a program, by a key of the equation.

    Args:
      order: `in_order` of the program.
      measure: returns the sums over the equations of one jaxpr, without those that it runs.
      within: how an equation changes the keys of the equations that it runs.
      trips: the iterations of a loop whose length is not known; None: unknown.

    Returns:
      The sums by key. Of branches there are the least and the most that one of them may do.
    """
    uses = Counter(
        run.jaxpr.jaxpr for nested in order.values() for _, runs in nested for run in runs
    )
    tables: dict[Jaxpr, _Sums] = {}
    for jaxpr, nested in order.items():
        sums = _Sums(measure(jaxpr))
        for eqn, runs in nested:
            rename = within(eqn)
            lone = len(runs) == 1 and uses[runs[0].jaxpr.jaxpr] == 1
            for found in _of_runs(runs, tables, trips):
                if isinstance(rename, str):
                    found, rename = _named(found, rename, lone), None
                if rename is None or isinstance(rename, int):
                    more = found._replace(shift=found.shift + (rename or 0))
                    sums = _merged(more, sums) if lone else _merged(sums, more)
                else:
                    _add(sums.table, _renamed(found.table, rename))
        tables[jaxpr] = sums
    return dict(tables[next(reversed(order))].items())


def _merged(sums: _Sums, more: _Sums) -> _Sums:
    """Add the second sums to the table of the first ones."""
    _add(sums.table, ((_moved(key, -sums.shift), entry) for key, entry in more.items()))
    return sums


def _named(sums: _Sums, key: str, lone: bool) -> _Sums:
    """Give a key to the sum that has None; in the same table if `lone`: nobody else reads it."""
    if None not in sums.table:
        return sums
    table = sums.table if lone else dict(sums.table)
    _add(table, [(key, table.pop(None))])
    return sums._replace(table=table)


def _renamed(table: Table, rename: Callable[[Any], Any]) -> Iterator[tuple[Any, Entry]]:
    return ((rename(key), entry) for key, entry in table.items())


def _add(table: Table, more: Iterable[tuple[Any, Entry]]) -> None:
    for key, entry in more:
        found = table.get(key)
        table[key] = entry if found is None else found + entry


def _of_runs(runs: Sequence[Run], tables: dict[Jaxpr, _Sums], trips: int | None) -> Iterator[_Sums]:
    branches = [tables[run.jaxpr.jaxpr] for run in runs if run.branch is not None]
    if branches:
        yield _Sums(_one_of([dict(sums.items()) for sums in branches]))
    for run in runs:
        if run.branch is None:
            times = times_of(run, trips)
            inner = tables[run.jaxpr.jaxpr]
            if times != (1, 1):
                inner = _Sums({k: e.run(times) for k, e in inner.table.items()}, inner.shift)
            yield inner


def _one_of(branches: Sequence[Table]) -> Table:
    """Return the sums where one of several jaxprs runs."""
    found: Table = {}
    for key in dict.fromkeys(key for table in branches for key in table):
        entries = [table.get(key) for table in branches]
        written = sum(e.written for e in entries if e is not None)
        width = max(len(e.counts) for e in entries if e is not None)
        columns = [[e.counts[i] if e else Count() for e in entries] for i in range(width)]
        found[key] = Entry(written, tuple(map(_either, columns)))
    return found


def _either(counts: Sequence[Count]) -> Count:
    highs = [c.high for c in counts]
    high = None if None in highs else max(h for h in highs if h is not None)
    return Count(min(c.low for c in counts), high)
