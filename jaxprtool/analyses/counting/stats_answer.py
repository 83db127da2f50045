"""The answers of `stats`: for one program, for one beside another, and for one program in several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.stats import Figures
from jaxprtool.analyses.counting.tally import Count
from jaxprtool.analyses.table import Parts, Report, Table, size_text

__all__ = ["Growth", "Stats", "Trend", "plural"]


def plural(n: int, what: str) -> str:
    """`1 equation`, `2 equations`."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


class Stats(Report):
    """What a program consists of.

    Attributes:
      figures: what it consists of.
      by: the kind of key of the groups.
      top: how many rows of a table people see.
      before: the figures of the program that it is compared with, or None.
    """

    __slots__ = ("before", "by", "figures", "top")

    def __init__(self, figures: Figures, by: str, top: int, before: Figures | None = None):
        self.figures, self.by, self.top, self.before = figures, by, top, before

    def parts(self) -> Parts:
        f = self.figures
        aside = f", {f.aside:,} in jaxprs that are not evaluated as they stand" * bool(f.aside)
        held = f"{plural(f.constants, 'array')} of {size_text(f.constant_bytes)}"
        dead, effects = (plural(len(x), "equation") if x else "none" for x in (f.dead, f.effects))
        found: list[str | Table] = [
            f"equations: {f.written:,} written{aside}, {f.executed} executed; depth {f.depth}",
            f"constants: {held if f.constants else 'none'}; dead: {dead}; effects: {effects}",
        ]
        if self.before is not None:
            return [*found, *self._changes(self.before)]
        rows = [[f"{n:,}", str(x), _key(k, self.by)] for k, (n, x) in f.groups.items()]
        found += _shortened("", ["written", "executed", f"{self.by}<"], rows, self.top)
        values = [
            [
                "unknown" if v.nbytes is None else size_text(v.nbytes),
                v.type,
                str(v.place),
                v.place.in_full(),
            ]
            for v in f.largest
        ]
        found += _shortened("largest values", ["size", "type<", "equation<", "<"], values, self.top)
        rows = [[str(p), p.in_full()] for p in f.dead]
        found += _shortened("dead equations", ["equation<", "<"], rows, self.top)
        rows = [
            ["ordered" if e.ordered else "", str(e.place), e.place.in_full()] for e in f.effects
        ]
        return [*found, *_shortened("effects", ["order<", "equation<", "<"], rows, self.top)]

    def _changes(self, before: Figures) -> Parts:
        f = self.figures
        pairs = [
            ("written", before.written, f.written),
            ("executed", before.executed, f.executed),
            ("depth", before.depth, f.depth),
            ("constant bytes", before.constant_bytes, f.constant_bytes),
            ("dead", len(before.dead), len(f.dead)),
            ("effects", len(before.effects), len(f.effects)),
        ]
        changed = [f"{what}: {a} -> {b}" for what, a, b in pairs if a != b]
        rows = [
            [str(a[0]), str(b[0]), f"{b[0] - a[0]:+,}", str(a[1]), str(b[1]), _key(k, self.by)]
            for k, a, b in self._compared(before)
        ]
        titles = ["written before", "after", "change", "executed before", "after", f"{self.by}<"]
        if not rows and not changed:
            return ["", f"nothing changed, by {self.by}"]
        return ["", *changed, *_shortened("", titles, rows, self.top)]

    def _compared(self, before: Figures) -> list[tuple[Any, tuple[int, Count], tuple[int, Count]]]:
        """The groups that differ, the largest change first."""
        new, old, none = self.figures.groups, before.groups, (0, Count())
        keys = dict.fromkeys([*old, *new])
        pairs = [(k, old.get(k, none), new.get(k, none)) for k in keys]
        differ = [p for p in pairs if p[1] != p[2]]
        return sorted(differ, key=lambda p: (-abs(p[2][0] - p[1][0]), str(p[0])))

    def json(self) -> dict[str, Any]:
        found = {"schema": 1, **_figures_json(self.figures, self.by, self.top)}
        if self.before is not None:
            found["vs"] = {
                **_figures_json(self.before, self.by, self.top),
                "changes": [
                    {
                        "key": k,
                        "equations": {"before": a[0], "after": b[0]},
                        "executed": {"before": a[1].json(), "after": b[1].json()},
                    }
                    for k, a, b in self._compared(self.before)
                ],
            }
        return found


def _figures_json(f: Figures, by: str, top: int) -> dict[str, Any]:
    return {
        "equations": {"written": f.written, "executed": f.executed.json(), "aside": f.aside},
        "depth": f.depth,
        "by": by,
        "groups": [
            {"key": k, "equations": n, "executed": x.json()} for k, (n, x) in f.groups.items()
        ],
        "largest": [
            {"place": v.place.json(), "name": v.name, "type": v.type, "bytes": v.nbytes}
            for v in f.largest[:top]
        ],
        "constants": {"count": f.constants, "bytes": f.constant_bytes},
        "dead": [p.json() for p in f.dead],
        "effects": [{"place": e.place.json(), "ordered": e.ordered} for e in f.effects],
    }


def _key(key: Any, by: str) -> str:
    return f"(no {by})" if key is None else str(key)


def _shortened(
    heading: str, titles: Sequence[str], rows: Sequence[Sequence[str]], top: int
) -> list[str | Table]:
    """Return a table below an empty line, with at most `top` rows; nothing where there are none."""
    if not rows:
        return []
    more = [f"... and {len(rows) - top:,} more"] if len(rows) > top else []
    return ["", Table(titles, rows[:top], heading), *more]


# -- several sizes ------------------------------------------------------------------------------------


class Trend(NamedTuple):
    """How a group of equations grows with the size of a program.

    Attributes:
      key: the key of the group.
      figure: what grows: `equations` (executed) or `bytes` (of their results).
      values: the figure for each size; None where it is not known.
      exponent: the fitted exponent of the size; None where a value is not known, or 0.
    """

    key: Any
    figure: str
    values: tuple[int | None, ...]
    exponent: float | None

    @property
    def is_steep(self) -> bool:
        """Whether it grows faster than linearly."""
        return self.exponent is not None and self.exponent > 1.1


class Growth(Report):
    """How the groups of a program's equations grow with its size.

    Attributes:
      names: the names of the programs.
      sizes: their sizes.
      by: the kind of key of the groups.
      trends: the growth of each group and figure, the steepest first.
      top: how many rows people see.
    """

    __slots__ = ("by", "names", "sizes", "top", "trends")

    def __init__(
        self,
        names: Sequence[str],
        sizes: Sequence[int],
        by: str,
        trends: Sequence[Trend],
        top: int,
    ):
        self.names, self.sizes, self.by, self.top = [*names], [*sizes], by, top
        self.trends = [*trends]

    @property
    def steep(self) -> list[Trend]:
        """The groups that grow faster than linearly."""
        return [t for t in self.trends if t.is_steep]

    def parts(self) -> Parts:
        rows = [
            [
                "-" if t.exponent is None else f"n^{t.exponent:.2f}",
                *["unknown" if v is None else f"{v:,}" for v in t.values],
                t.figure,
                ("* " if t.is_steep else "  ") + _key(t.key, self.by),
            ]
            for t in self.trends
        ]
        titles = ["growth", *[f"n={n:,}" for n in self.sizes], "of<", f"{self.by}<"]
        n = len(self.steep)
        said = f"{plural(n, 'row')} (*)" if n else "nothing"
        return [f"faster than linearly: {said}", *_shortened("", titles, rows, self.top)]

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "sizes": [
                {"program": name, "size": n} for name, n in zip(self.names, self.sizes, strict=True)
            ],
            "by": self.by,
            "growth": [
                {
                    "key": t.key,
                    "figure": t.figure,
                    "values": list(t.values),
                    "exponent": t.exponent,
                    "faster_than_linear": t.is_steep,
                }
                for t in self.trends
            ],
        }
