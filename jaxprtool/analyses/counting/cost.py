"""What a program costs: operations, bytes, communication and memory, equation by equation, loops times their iterations.

The cost of an equation that runs jaxprs is that of their equations; all others have a row of their
own. Of branches the dearest counts. Figures are `Count`s, whose upper end is None where the length
of a loop is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.devices import Device
from jaxprtool.analyses.counting.fixed_sizes import check_sizes
from jaxprtool.analyses.counting.stats import grouping
from jaxprtool.analyses.counting.tally import (
    ALL,
    Count,
    Entry,
    Nested,
    Site,
    Table,
    in_order,
    sites,
    tally,
)
from jaxprtool.analyses.memory.liveness import Memory, best_order, memory
from jaxprtool.analyses.places import Place
from jaxprtool.interpreters.columns.communication import bytes_sent
from jaxprtool.interpreters.cost import Cost, Costs
from jaxprtool.ir.diagnostics import MissingRuleError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ops.parallel import collective_names

__all__ = ["Each", "Estimate", "Group", "Row", "Sums"]


class Each(NamedTuple):
    """What one execution of an equation costs.

    Attributes:
      flops, transcendentals: as `interpreters.cost` counts them; lower bounds where is_known is
        False.
      read: bytes of operands.
      written: bytes of results.
      is_known: whether the operation contains no loop of unknown length.
    """

    flops: int
    transcendentals: int
    read: int
    written: int
    is_known: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


class Sums(NamedTuple):
    """Figures of all executions of some equations.

    Attributes:
      executed: how many equations are executed.
      flops, transcendentals: see `Each`.
      nbytes: bytes read and written; less than the sum of the two where the branch that reads most
        is not the one that writes most.
      read: bytes of operands.
      written: bytes of results.
    """

    executed: Count
    flops: Count
    transcendentals: Count
    nbytes: Count
    read: Count
    written: Count


class Row(NamedTuple):
    """An equation that is executed, and what all its executions cost.

    Attributes:
      site: the jaxpr that it is in.
      eqn: the equation.
      each: the cost of one execution.
      sums: the cost of all executions.
      axes: the names of axes that it communicates along; () for none.
      sent: the bytes that each member sends, in all executions.
      seconds: how long a device takes at least for all of them, each device where there are
        several; None where nobody asked, or it is not known.
      bound: what that time is bound by: `compute` or `memory`.
    """

    site: Site
    eqn: JaxprEqn
    each: Each
    sums: Sums
    axes: tuple[str, ...] = ()
    sent: Count = Count()
    seconds: float | None = None
    bound: str = ""

    @property
    def place(self) -> Place:
        """The place of the equation."""
        return self.site.place(self.eqn)


class Group(NamedTuple):
    """Equations with the same key: how many there are, and what they cost."""

    written: int
    sums: Sums


class Estimate:
    """What a program costs. Figures are computed when they are first read.

    Attributes:
      written: how many equations there are, those of a jaxpr as often as it is used.
      total: what all equations cost.
      groups: the costs by key, where one was asked for.
    """

    def __init__(
        self,
        program: ClosedJaxpr,
        by: str | None = None,
        trips: int | None = None,
        device: Device | None = None,
    ):
        """Sum up what a well-typed program costs.

        Args:
          program: the program.
          by: one of `stats.KEYS`, for groups, or None.
          trips: the iterations of a loop whose length is not known; None: unknown.
          device: the device for which times are estimated, or None.

        Raises:
          UnsupportedError: a size is no number.
          MissingRuleError: a primitive has no cost rule.
        """
        check_sizes(program)
        self.program, self.by, self.trips, self.device = program, by, trips, device
        self.order = in_order(program.jaxpr)
        self._own = _own_costs(self.order, trips)
        table = _table(self.order, self._own, by, trips)
        whole = table.pop(ALL)
        self.written, self.total = whole.written, Sums(*whole.counts)
        self.groups = {key: Group(e.written, Sums(*e.counts)) for key, e in table.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (self.program, self.by, self.trips, self.device)

    @cached_property
    def sites(self) -> list[Site]:
        """The jaxprs that run."""
        return sites(self.order, self.trips)

    @cached_property
    def rows(self) -> list[Row]:
        """The equations that run nothing else, in the order of the program."""
        return _rows(self.sites, self._own, self.device)

    @cached_property
    def sent(self) -> dict[str, Count]:
        """The bytes that each member sends, by the axes of a mesh: `x` or `x,y`."""
        found: dict[str, Count] = {}
        for row in self.rows:
            if row.axes:
                name = ",".join(row.axes)
                found[name] = found.get(name, Count()) + row.sent
        return found

    @cached_property
    def seconds(self) -> float | None:
        """The seconds that the device takes at least; None where there is no device, or it is not known."""
        times = [row.seconds for row in self.rows]
        if self.device is None or None in times:
            return None
        return sum(t or 0.0 for t in times)

    @cached_property
    def unknown(self) -> list[Place]:
        """The places of loops whose length is not known."""
        return [] if self.trips is not None else _unknown_loops(self.sites, self.order)

    @cached_property
    def memory(self) -> Memory:
        """The memory that its values take."""
        return memory(self.program, self.order)

    @cached_property
    def reordered(self) -> int:
        """The bytes at the peak of memory in the best order that is found."""
        return best_order(self.program, self.order, self.memory)


Own = dict[Jaxpr, list[tuple[JaxprEqn, Each | None]]]


def _own_costs(order: dict[Jaxpr, Nested], trips: int | None) -> Own:
    """Return for each jaxpr its equations, with their costs; None for those that run jaxprs."""
    found: Own = {}
    known, each = Costs(), {}
    for jaxpr, nested in order.items():
        calls = {eqn for eqn, _ in nested}
        pairs: list[tuple[JaxprEqn, Each | None]] = []
        for eqn in jaxpr.eqns:
            if eqn in calls:
                pairs.append((eqn, None))
                continue
            cost = _of(known, eqn)
            made = each.get(id(cost))  # `known` keeps it alive
            if made is None:
                made = each[id(cost)] = _each(eqn, cost, trips)
            pairs.append((eqn, made))
        found[jaxpr] = pairs
    return found


def _of(known: Costs, eqn: JaxprEqn) -> Cost:
    try:
        return known.of(eqn)
    except MissingRuleError as e:
        raise MissingRuleError(replace(e.diagnostics[0], span=eqn.span), eqn.primitive.name) from e


def _each(eqn: JaxprEqn, cost: Cost, trips: int | None) -> Each:
    if trips is not None:
        cost = cost.at(trips)
    written = sum(getattr(v.aval, "nbytes", 0) for v in eqn.out_binders)
    read = max((cost.bytes or 0) - written, 0)
    return Each(cost.flops, cost.transcendentals, read, written, cost.is_known)


def _figures(each: Each | None) -> tuple[Count, ...]:
    """Return the figures of one execution of an equation, in the order of `Sums`."""
    if each is None:
        return _CALL
    moved = (each.nbytes, each.read, each.written)
    computed = [Count(n, n if each.is_known else None) for n in each[:2]]
    return (_ONE, *computed, *[Count(n, n) for n in moved])


_ONE = Count(1, 1)
_CALL = (_ONE, *[Count()] * 5)


def _table(order: dict[Jaxpr, Nested], own: Own, by: str | None, trips: int | None) -> Table:
    kind = None if by is None else grouping(by)

    def measure(jaxpr: Jaxpr) -> Table:
        table: Table = {ALL: _summed(own[jaxpr])}
        if kind is None:
            return table
        parts: dict[Any, list[tuple[JaxprEqn, Each | None]]] = {}
        for pair in own[jaxpr]:
            parts.setdefault(kind.read(pair[0]), []).append(pair)
        for key, pairs in parts.items():
            name, entry = kind.spell(key), _summed(pairs)
            table[name] = table[name] + entry if name in table else entry
        return table

    return tally(order, measure, (lambda _: None) if kind is None else kind.within, trips)


def _summed(pairs: Sequence[tuple[JaxprEqn, Each | None]]) -> Entry:
    """Sum over equations of one jaxpr, each executed once."""
    kinds: dict[int, list[Any]] = {}
    for _, each in pairs:
        found = kinds.get(id(each))
        if found is None:
            kinds[id(each)] = [each, 1]
        else:
            found[1] += 1
    total = Entry(0, (Count(),) * 6)
    for each, n in kinds.values():
        total += Entry(n, tuple([c * Count(n, n) for c in _figures(each)]))
    return total


def _rows(where: Sequence[Site], own: Own, device: Device | None) -> list[Row]:
    found: list[Row] = []
    for site in where:
        sums: dict[int, Sums] = {}
        for eqn, each in own[site.jaxpr]:
            if each is None:
                continue
            all_of = sums.get(id(each))
            if all_of is None:
                times = site.times
                all_of = sums[id(each)] = Sums(*[c * times for c in _figures(each)])
            row = Row(site, eqn, each, all_of)
            if eqn.primitive.acts_along:
                row = _communicating(row)
            if device is not None:
                row = _timed(row, device)
            found.append(row)
    return found


def _communicating(row: Row) -> Row:
    names = collective_names(row.eqn)
    sizes = {} if row.site.axes is None else row.site.axes.sizes
    sent = bytes_sent(row.eqn, names, sizes)
    if not sent:
        return row
    return row._replace(axes=names, sent=_on_each(row.site) * Count(sent, sent))


def _on_each(site: Site) -> Count:
    """Return how often a jaxpr runs on each device."""
    low, high = site.times
    return Count(low // site.devices, None if high is None else high // site.devices)


def _timed(row: Row, device: Device) -> Row:
    each, times = row.each, _on_each(row.site)
    compute = (each.flops + each.transcendentals) / device.peak(_bits(row.eqn))
    moving = each.nbytes / device.bandwidth
    known = times.high is not None and each.is_known
    seconds = max(compute, moving) * times.high if known and times.high is not None else None
    return row._replace(seconds=seconds, bound="compute" if compute > moving else "memory")


def _bits(eqn: JaxprEqn) -> int:
    """Return the bits of the widest element among the operands; the parts of complex numbers count separately."""
    widest = 8
    for x in eqn.inputs or eqn.out_binders:
        dtype = getattr(x.aval, "dtype", None)
        if dtype is not None:
            widest = max(widest, dtype.itemsize * 8 // (2 if dtype.kind == "c" else 1))
    return widest


def _unknown_loops(where: Sequence[Site], order: dict[Jaxpr, Nested]) -> list[Place]:
    return [
        site.place(eqn)
        for site in where
        for eqn, runs in order[site.jaxpr]
        if any(run.turns for run in runs)
    ]
