"""Where the time of a program goes: by equation, by line of Python, by scope, by primitive, and in its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.tally import in_order, sites
from jaxprtool.analyses.places import Place, position
from jaxprtool.analyses.profiling.timing import Node, Slice
from jaxprtool.analyses.sites import Sites
from jaxprtool.analyses.table import Parts, Report, Table
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value

__all__ = ["KEYS", "Group", "Instruction", "Profile", "Row", "rows_of", "time_text"]

KEYS = ("equation", "source", "scope", "primitive")


class Row(NamedTuple):
    """An equation of a program, as it is written.

    Attributes:
      place: the equation, on the first way to it.
      calls: how often a run executes it, on each device; compiled: how often an instruction that it
        went into runs on the way to it, on all devices.
      seconds: the time of a run that passes in the equation itself, and not in what it runs.
      inclusive: the same, with the time in what it runs.
    """

    place: Place
    calls: float
    seconds: float
    inclusive: float


class Group(NamedTuple):
    """Equations with the same key; None is the key of those for which it is not known."""

    key: str | None
    calls: float
    seconds: float


class Instruction(NamedTuple):
    """An instruction of the optimised HLO.

    Attributes:
      name: its name in the module.
      calls: how often a run executes it.
      seconds: the time of a run that passes in it, and not in instructions inside it.
      shares: the equations that went into it, with the share of its time that each gets; () for
        XLA's own.
    """

    name: str
    calls: float
    seconds: float
    shares: Sequence[tuple[Place, float]]


def rows_of(program: ClosedJaxpr, root: Node, runs: int, at_once: bool = True) -> list[Row]:
    """Return a row for each equation that a program runs, also for one that was not executed, the longest time first.

    Args:
      program: the program.
      root: what was measured.
      runs: in how many runs it was measured.
      at_once: whether one measured call is a call on all devices, as on NumPy.
    """
    inclusive = root.inclusive()
    places: dict[JaxprEqn, tuple[Place, int]] = {}
    for site in sites(in_order(program.jaxpr), None):
        for eqn in site.jaxpr.eqns:
            places.setdefault(eqn, (site.place(eqn), site.devices if at_once else 1))
    sums: dict[JaxprEqn, list[float]] = {eqn: [0.0, 0.0, 0.0] for eqn in places}
    stand_ins: dict[
        tuple[Node | None, JaxprEqn], float
    ] = {}  # the calls of equations that run in the place of a written one
    written = Sites(program)
    for node in root.walk():
        if node.eqn is None:
            continue
        eqn = written.written(node.eqn)
        if eqn not in places:
            places[eqn] = (written.of(node.place()), 1)
        found = sums.setdefault(eqn, [0.0, 0.0, 0.0])
        if eqn is node.eqn:
            found[0] += node.calls * places[eqn][1]
        else:
            key = node.above, eqn
            stand_ins[key] = max(stand_ins.get(key, 0), node.calls)
        found[1] += node.own
        found[2] += inclusive[node]
    for (_, eqn), calls in stand_ins.items():
        sums[eqn][0] += calls * places[eqn][1]
    rows = [
        Row(places[eqn][0], calls / runs, own / runs / 1e9, whole / runs / 1e9)
        for eqn, (calls, own, whole) in sums.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)


class Profile(Report):
    """Where the time of a program goes.

    Attributes:
      program: the program.
      backend: numpy or xla.
      runs: how many runs were measured; times and calls are the mean of one.
      seconds: how long a run took.
      rows: a row for each equation; their times and those of `others` add up to `seconds`.
      others: what else takes time: (what, seconds).
      root: the tree of what ran; its times are nanoseconds of all runs.
      instructions: the instructions of the compiled program, the longest time first.
      slices: what ran when in the last run, where that was asked for.
      outs: the results of the last run.
      by: the key of the rows that are shown.
      top: how many rows people see.
      annotate: whether people see the text of the program with times at the margin.
      notes: what else there is to say.
    """

    __slots__ = (
        *("annotate", "backend", "by", "instructions", "notes", "others", "outs"),
        *("program", "root", "rows", "runs", "seconds", "slices", "top"),
    )

    def __init__(self, program: ClosedJaxpr, backend: str, root: Node, runs: int, seconds: float):
        self.program, self.backend, self.root = program, backend, root
        self.runs, self.seconds = runs, seconds
        self.rows = rows_of(program, root, runs, backend == "numpy")
        self.others: list[tuple[str, float]] = []
        self.instructions: list[Instruction] = []
        self.slices: list[Slice] = []
        self.outs: list[Value] = []
        self.by, self.top, self.annotate = "equation", 20, False
        self.notes: list[str] = []

    @property
    def groups(self) -> list[Group]:
        """The rows grouped by source, scope or primitive, the longest time first; () where `by` is equation."""
        key = _GROUPS.get(self.by)
        if key is None:
            return []
        found: dict[str | None, list[float]] = {}
        for row in self.rows:
            sums = found.setdefault(key(row.place), [0.0, 0.0])
            sums[0] += row.calls
            sums[1] += row.seconds
        groups = [Group(k, calls, seconds) for k, (calls, seconds) in found.items()]
        return sorted(groups, key=lambda g: -g.seconds)

    def parts(self) -> Parts:
        mean = f", the mean of {self.runs:,}" if self.runs > 1 else ""
        executed = counted(round(sum(row.calls for row in self.rows)), "equation")
        what = f"; {executed} executed" if self.backend == "numpy" else ""
        found: list[str | Table] = [
            f"{self.backend}: {time_text(self.seconds)} a run{mean}{what}",
            *self.notes,
        ]
        if self.annotate:
            return [*found, "", *self._listing(), *(self._line(*x) for x in self.others)]
        return [*found, "", *self._table(), *self._fused()]

    def _table(self) -> Parts:
        others = [[*self._cells(seconds), "", "", what, ""] for what, seconds in self.others]
        if self.by == "equation":
            rows = [
                [
                    *self._cells(r.seconds),
                    time_text(r.inclusive) if r.inclusive > r.seconds else "",
                    self._calls(r.calls),
                    str(r.place),
                    r.place.in_full(),
                ]
                for r in self.rows[: self.top]
            ]
            left = len(self.rows) - self.top
            titles = ["time", "%", "inclusive", "calls", "equation<", "<"]
        else:
            rows = [
                [*self._cells(g.seconds), self._calls(g.calls), g.key or f"(no {self.by})"]
                for g in self.groups
            ]
            rows, left = rows[: self.top], len(rows) - self.top
            others = [[*self._cells(seconds), "", what] for what, seconds in self.others]
            titles = ["time", "%", "calls", f"{self.by}<"]
        more = [f"... and {left:,} more"] if left > 0 else []
        return [Table(titles, [*rows, *others]), *more]

    def _calls(self, n: float) -> str:
        """Return how often something ran, for people; "" for a compiled equation that no instruction has."""
        return "" if self.backend == "xla" and not n else _count(n)

    def _cells(self, seconds: float) -> list[str]:
        return [time_text(seconds), f"{self._percent(seconds):.1f}"]

    def _percent(self, seconds: float) -> float:
        return 100 * seconds / self.seconds if self.seconds else 0.0

    def _fused(self) -> Parts:
        """Return a table of the instructions that several equations went into."""
        fused = [x for x in self.instructions if len(x.shares) > 1][: self.top]
        if not fused:
            return []
        rows = [
            [
                *self._cells(x.seconds),
                _count(x.calls),
                x.name,
                _listed([f"{_short(place)} {100 * share:.0f} %" for place, share in x.shares]),
            ]
            for x in fused
        ]
        heading = "instructions of several equations, which share their time by elements computed"
        return ["", Table(["time", "%", "calls", "instruction<", "equations<"], rows, heading)]

    def _listing(self) -> list[str]:
        """Return the text of the program with the time of each line before it."""
        at: dict[int, float] = {}
        spans = [row.place.eqn.span for row in self.rows]
        spans += [jaxpr.span for jaxpr in in_order(self.program.jaxpr)]
        found = [span for span in spans if span is not None]
        if not found:
            return ["the program has no text"]
        for row in self.rows:
            line, _ = position(row.place.eqn)
            at[line or 0] = at.get(line or 0, 0.0) + row.seconds
        source = found[0].source
        start = source.text.rfind("\n", 0, min(span.start for span in found)) + 1
        lines: list[str] = []
        end = source.text.find("\n", max(span.end for span in found))
        for text in source.text[start : end if end >= 0 else None].split("\n"):
            lines.append(self._line(text, at.get(source.position(start)[0])))
            start += len(text) + 1
        return lines

    def _line(self, text: str, seconds: float | None) -> str:
        if seconds is None:
            return f"{'':18} | {text}".rstrip()
        return f"{time_text(seconds):>10} {self._percent(seconds):5.1f} % | {text}"

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "schema": 1,
            "backend": self.backend,
            "runs": self.runs,
            "total": {
                "seconds": self.seconds,
                "equations": _whole(sum(row.calls for row in self.rows)),
            },
            "equations": [
                {
                    "place": row.place.json(),
                    "calls": _whole(row.calls),
                    "seconds": row.seconds,
                    "inclusive_seconds": row.inclusive,
                }
                for row in self.rows
            ],
            "others": [{"what": what, "seconds": seconds} for what, seconds in self.others],
            "notes": self.notes,
        }
        if self.by != "equation":
            found["by"] = self.by
            found["groups"] = [
                {"key": g.key, "calls": _whole(g.calls), "seconds": g.seconds} for g in self.groups
            ]
        if self.backend == "xla":
            found["instructions"] = [
                {
                    "name": x.name,
                    "calls": _whole(x.calls),
                    "seconds": x.seconds,
                    "equations": [{"place": p.json(), "share": share} for p, share in x.shares],
                }
                for x in self.instructions
            ]
        return found


def _line_of_python(place: Place) -> str | None:
    frame = place.frame
    return None if frame is None else f"{frame.file}:{frame.line}"


_GROUPS: dict[str, Callable[[Place], str | None]] = {
    "source": _line_of_python,
    "scope": lambda place: place.names,
    "primitive": lambda place: place.eqn.primitive.name,
}


_FEW = 8  # equations of an instruction that people see


def _listed(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - _FEW:,} more"] if len(texts) > _FEW else []
    return ", ".join([*texts[:_FEW], *more])


def _short(place: Place) -> str:
    line, _ = position(place.eqn)
    return place.eqn.primitive.name + ("" if line is None else f" at {line}")


def _whole(n: float) -> float | int:
    return int(n) if n == int(n) else n


def _count(n: float) -> str:
    return f"{n:,.0f}" if n == int(n) else f"{n:,.2f}"


def time_text(seconds: float) -> str:
    """Return a time with three or four digits: `12.5 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:,.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0"
