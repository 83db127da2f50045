"""The answer of `cost`, for people and for scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.cost import Estimate, Group, Row, Sums
from jaxprtool.analyses.counting.tally import Count
from jaxprtool.analyses.memory.chart import chart
from jaxprtool.analyses.memory.live_at_peak import Live, live_at_peak
from jaxprtool.analyses.table import Parts, Report, Table, size_text
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["SORTS", "CostReport", "Limit"]

_LARGE = 2_000  # equations; a better order of larger programs is searched only on request, as that takes long
SORTS = ("flops", "transcendentals", "bytes", "intensity", "seconds")


class Limit(NamedTuple):
    """A figure that is limited: its name, the limit, and its value in the program."""

    figure: str
    limit: float
    value: float

    @property
    def is_over(self) -> bool:
        """Whether the value is over the limit."""
        return self.value > self.limit


class CostReport(Report):
    """What a program costs.

    Attributes:
      program: the program.
      estimate: what it costs.
      by: the kind of key of the groups; None: a row for each equation.
      sort: the figure by which rows are sorted, the largest first; one of `SORTS`.
      top: how many rows people see.
      chart: whether people see the lifetimes of values.
      reorder: whether a better order of the equations is searched also in a large program.
      budget: the figures that are limited.
    """

    __slots__ = ("budget", "by", "chart", "estimate", "program", "reorder", "sort", "top")

    def __init__(
        self,
        program: ClosedJaxpr,
        estimate: Estimate,
        by: str | None,
        sort: str,
        top: int,
        chart: bool = False,
        reorder: bool = False,
        budget: Sequence[Limit] = (),
    ):
        self.program, self.estimate, self.by, self.sort = program, estimate, by, sort
        self.top, self.chart, self.reorder, self.budget = top, chart, reorder, [*budget]

    @property
    def total(self) -> dict[str, Any]:
        """The figures flops, transcendentals, bytes, peak_bytes and equations; None for those that are not known."""
        e, t = self.estimate, self.estimate.total
        return {
            "flops": t.flops.high,
            "transcendentals": t.transcendentals.high,
            "bytes": t.nbytes.high,
            "peak_bytes": e.memory.nbytes,
            "equations": e.written,
        }

    @property
    def over(self) -> list[Limit]:
        """The figures that are over their limit."""
        return [limit for limit in self.budget if limit.is_over]

    @property
    def live(self) -> list[Live]:
        """The values that exist at the peak of memory, the largest first."""
        return live_at_peak(self.program, self.estimate.memory)

    def parts(self) -> Parts:
        e, t = self.estimate, self.estimate.total
        ratio = "" if (x := _intensity(t)) is None else f"; {x:.3g} operations a byte"
        found: list[str | Table] = [
            f"equations: {e.written:,} written, {t.executed} executed",
            f"flops: {t.flops}; transcendentals: {t.transcendentals}",
            f"bytes: {_size(t.read)} read, {_size(t.written)} written{ratio}",
        ]
        ranges = [c for c in (t.flops, t.transcendentals, t.read, t.written) if c.high != c.low]
        if any(c.high is not None for c in ranges):
            found.append("of branches the cheapest and the dearest count")
        if e.unknown:
            loops = ", ".join(f"{p}  {p.in_full()}" for p in e.unknown[:3])
            found.append(f"unknown: the turns of {loops}; --trips N says how many")
        if e.seconds is not None:
            found.append(f"time: {_time(e.seconds)} at least")
        for axes, sent in e.sent.items():
            found.append(f"communication along {axes}: {_size(sent)} sent by each member")
        found += [f"over budget: {x.figure} {x.value:,.6g} > {x.limit:,.6g}" for x in self.over]
        found += self._rows()
        return [*found, *self._memory()]

    def _rows(self) -> list[str | Table]:
        timed = any(r.seconds is not None for r in self.estimate.rows) and self.by is None
        if self.by is None:
            rows = self.ordered()
            cells = [[*_cells(r.sums), *_extra(r, timed), *_where(r)] for r in rows[: self.top]]
            last = ["equation<", "<"]
        else:
            groups = self.ordered_groups()
            rows = groups
            cells = [[*_cells(g.sums), _key(k, self.by)] for k, g in groups[: self.top]]
            last = [f"{self.by}<"]
        titles = ["flops", "transc.", "bytes", "ops/byte", *["time", "bound<"] * timed]
        more = [f"... and {len(rows) - self.top:,} more"] * (len(rows) > self.top)
        return ["", Table([*titles, *last], cells), *more] if rows else []

    def ordered(self) -> list[Row]:
        """Return the rows of the equations, sorted."""
        figure = _FIGURES[self.sort]
        if self.sort == "seconds":
            return sorted(self.estimate.rows, key=lambda r: -(r.seconds or 0.0))
        kinds = {id(r.sums): r.sums for r in self.estimate.rows}  # equal equations share one object
        keys = {i: _down(figure(sums)) for i, sums in kinds.items()}
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
        rank_of = {i: ranks[key] for i, key in keys.items()}
        return sorted(self.estimate.rows, key=lambda r: rank_of[id(r.sums)])

    def ordered_groups(self) -> list[tuple[Any, Group]]:
        """Return the groups, sorted."""
        figure = _FIGURES[self.sort]
        groups = self.estimate.groups.items()
        return sorted(groups, key=lambda pair: (_down(figure(pair[1].sums)), str(pair[0])))

    def _memory(self) -> list[str | Table]:
        m = self.estimate.memory
        live = self.live
        found: list[str | Table] = [
            "",
            f"peak memory: {size_text(m.nbytes)} as written{self._better()}; "
            f"{size_text(m.held)} of it arguments and constants",
        ]
        cells = [
            [
                size_text(x.nbytes),
                str(x.aval),
                x.name,
                str(x.maker),
                x.place.in_full() if x.place else "",
            ]
            for x in live[: self.top]
        ]
        if cells:
            titles = ["size", "type<", "name<", "made by<", "<"]
            found.append(Table(titles, cells, "live at the peak"))
        if len(live) > self.top:
            found.append(f"... and {len(live) - self.top:,} more")
        if self.chart:
            found += ["", *chart(self.program.jaxpr, self.top)]
        return found

    @property
    def is_reordered(self) -> bool:
        """Whether a better order is searched: for programs that are not large, and on request."""
        return self.reorder or self.estimate.written <= _LARGE

    def _better(self) -> str:
        if not self.is_reordered:
            return "; --reorder looks for a better order"
        found, written = self.estimate.reordered, self.estimate.memory.nbytes
        return f", {size_text(found)} reordered" if found < written else ", no better order found"

    def json(self) -> dict[str, Any]:
        e, t = self.estimate, self.estimate.total
        found: dict[str, Any] = {
            "schema": 1,
            "total": {
                **self.total,
                "executed": t.executed.high,
                "bytes_read": t.read.high,
                "bytes_written": t.written.high,
                "reordered_peak_bytes": e.reordered if self.is_reordered else None,
                "held_bytes": e.memory.held,
                "seconds": e.seconds,
                "communication": {axes: sent.high for axes, sent in e.sent.items()},
                "at_least": {
                    "flops": t.flops.low,
                    "transcendentals": t.transcendentals.low,
                    "bytes": t.nbytes.low,
                },
            },
            "equations": [{"place": r.place.json(), **_row_json(r)} for r in self.ordered()],
            "unknown": [p.json() for p in e.unknown],
            "live_at_peak": [
                {
                    "name": x.name,
                    "type": str(x.aval),
                    "bytes": x.nbytes,
                    "place": x.place.json() if x.place else None,
                }
                for x in self.live
            ],
        }
        if self.by is not None:
            found["by"] = self.by
            found["groups"] = [
                {"key": k, "equations": g.written, **_sums_json(g.sums)}
                for k, g in self.ordered_groups()
            ]
        if self.budget:
            found["budget"] = [{**x._asdict(), "over": x.is_over} for x in self.budget]
        return found


def _intensity(sums: Sums) -> float | None:
    """Return the operations per byte; None where they are not known."""
    flops, other, nbytes = sums.flops.high, sums.transcendentals.high, sums.nbytes.high
    if flops is None or other is None or not nbytes:
        return None
    return (flops + other) / nbytes


_FIGURES: dict[str, Callable[[Sums], Any]] = {
    "flops": lambda s: s.flops,
    "transcendentals": lambda s: s.transcendentals,
    "bytes": lambda s: s.nbytes,
    "intensity": lambda s: Count(0, 0) if (x := _intensity(s)) is None else Count(x, x),  # type: ignore[arg-type]
    "seconds": lambda s: s.nbytes,
}


def _down(count: Count) -> tuple[int, float]:
    """Return a key for sorting: unknown counts first, then the largest."""
    return (0, -count.low) if count.high is None else (1, -count.high)


def _sums_json(sums: Sums) -> dict[str, Any]:
    return {
        "executed": sums.executed.high,
        "flops": sums.flops.high,
        "transcendentals": sums.transcendentals.high,
        "bytes": sums.nbytes.high,
        "bytes_read": sums.read.high,
        "bytes_written": sums.written.high,
        "intensity": _intensity(sums),
    }


def _row_json(row: Row) -> dict[str, Any]:
    found = _sums_json(row.sums)
    if row.axes:
        found["communication"] = {",".join(row.axes): row.sent.high}
    if row.bound:
        found |= {"seconds": row.seconds, "bound": row.bound}
    return found


def _number(count: Count) -> str:
    """Return the upper end of a count, which people see in tables."""
    return "unknown" if count.high is None else f"{count.high:,}"


def _size(count: Count) -> str:
    if count.high is None:
        return f"{size_text(count.low)} + unknown" if count.low else "unknown"
    low = "" if count.low == count.high else f"{size_text(count.low)} to "
    return low + size_text(count.high)


def _ratio(x: float | None) -> str:
    return "-" if x is None else f"{x:.3g}"


def _cells(sums: Sums) -> list[str]:
    size = "unknown" if sums.nbytes.high is None else size_text(sums.nbytes.high)
    counts = [_number(sums.flops), _number(sums.transcendentals)]
    return [*counts, size, _ratio(_intensity(sums))]


def _extra(row: Row, timed: bool) -> list[str]:
    if not timed:
        return []
    return ["unknown" if row.seconds is None else _time(row.seconds), row.bound]


def _where(row: Row) -> list[str]:
    more = f" (and {row.site.ways - 1:,} more ways)" if row.site.ways > 1 else ""
    return [f"{row.place}{more}", row.place.in_full()]


def _key(key: Any, by: str) -> str:
    return f"(no {by})" if key is None else str(key)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
