"""A diff as text: hunks of marked lines, and what differs in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jaxprtool.analyses.diffing.diff import Change
from jaxprtool.analyses.diffing.rows import Part, Row
from jaxprtool.analyses.places import Place
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = ["Hunk", "hunks", "shown", "summary", "unified"]

_MOST = 3  # places that a line names, at most


class Hunk(NamedTuple):
    """Lines around changes.

    Attributes:
      rows: the lines.
      header: `@@ -12,4 +12,5 @@ model.py:41 in attn`, with the numbers of lines in the files.
    """

    rows: Sequence[Row]
    header: str


def hunks(rows: Sequence[Row], context: int) -> Iterator[Hunk]:
    """Yield the stretches of lines that are at most `context` lines away from one that differs."""
    bounds: list[list[int]] = []
    for k, row in enumerate(rows):
        if row.same:
            continue
        start, stop = max(k - context, 0), min(k + context + 1, len(rows))
        if bounds and start <= bounds[-1][1]:
            bounds[-1][1] = stop
        else:
            bounds.append([start, stop])
    last, done = [0, 0], 0
    for start, stop in bounds:
        within = rows[start:stop]
        ranges: list[str] = []
        for side, mark in enumerate("-+"):
            parts = [row.parts[side] for row in within]
            before = (rows[k].parts[side] for k in range(start - 1, done - 1, -1))
            text, last[side] = _range(parts, before, last[side])
            ranges.append(mark + text)
        done = stop
        yield Hunk(within, f"@@ {' '.join(ranges)} @@ {_sources(within)}".rstrip())


def _range(
    parts: Sequence[Part | None], before: Iterable[Part | None], last: int
) -> tuple[str, int]:
    """Return the range of a side's lines in a hunk, as first line and count, and its last line."""
    lines = [n for p in parts if p is not None and (n := p.line) is not None]
    if not lines:
        known = (p.line for p in before if p is not None)
        last = next((n for n in known if n is not None), last)
        return f"{last},0", last
    return f"{min(lines)},{max(lines) - min(lines) + 1}", max(lines)


def _sources(rows: Sequence[Row]) -> str:
    """Return the lines of Python that the changed equations of a hunk come from."""
    parts = [p for row in rows if not row.same for p in (row.b, row.a) if p is not None]
    return _several([p.source for p in parts if p.source])


def _several(texts: Iterable[str]) -> str:
    """Return the first few of the texts, each once, and how many more there are."""
    found = [*dict.fromkeys(texts)]
    more = [f"{len(found) - _MOST:,} more"] if len(found) > _MOST else []
    return ", ".join([*found[:_MOST], *more])


def shown(row: Row) -> Iterator[str]:
    """Yield the lines of a row: `-` and the line of a, then `+` and that of b; a blank and that of a where they are the same."""
    for mark, part, note in zip("-+", (row.a, row.b), row.notes, strict=True):
        if part is not None:
            yield (" " if row.same else mark) + str(part) + (f"  # {note}" if note else "")
        if row.same:
            return


def unified(rows: Sequence[Row], name_a: str, name_b: str, context: int = 3) -> list[str]:
    """Return a unified diff: a header, and hunks with `context` lines around changes. Empty when nothing differs."""
    found: list[str] = []
    for hunk in hunks(rows, context):
        found.append(hunk.header)
        for row in hunk.rows:
            found += shown(row)
    return [f"--- {name_a}", f"+++ {name_b}", *found] if found else []


# ---- in one line


def summary(changes: Sequence[Change], rows: Sequence[Row]) -> str:
    """Return in one line what differs: `3 added: 2 mul, 1 sin; 1 changed: 1 add; f32 to f64 at attn`."""
    said: list[str] = []
    for kind in ("added", "removed", "changed", "moved"):
        names = [_name(c) for c in changes if c.kind == kind]
        if names:
            said.append(f"{len(names)} {kind}: {_counted(names)}")
    return "; ".join([*said, *_types(changes), *_others(rows)])


def _name(change: Change) -> str:
    """Return the primitive of a change, or both."""
    names = [e.primitive.name for e in (change.a, change.b) if e is not None]
    return " to ".join(dict.fromkeys(names))


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in Counter(names).most_common())


def _types(changes: Sequence[Change]) -> list[str]:
    """Return the element types of results that have changed, and where."""
    found: dict[str, list[str]] = {}
    for c in changes:
        if c.a is None or c.b is None:
            continue
        for u, v in zip(c.a.out_binders, c.b.out_binders, strict=False):
            x, y = (getattr(w.aval, "dtype", None) for w in (u, v))
            if x is not y and x is not None and y is not None:
                found.setdefault(f"{x} to {y}", []).append(_where(c.b, c))
    return [f"{what} at {_several(where)}" for what, where in found.items()]


def _where(eqn: JaxprEqn, change: Change) -> str:
    """Return the scopes of an equation, or else its line of Python, or its line in the file."""
    place = Place(eqn, change.path_b)
    line = place.json()["line"]
    return place.names or place.source or (f"line {line}" if line else eqn.primitive.name)


def _others(rows: Sequence[Row]) -> list[str]:
    """Return what differs besides equations: programs, arguments, constants, results."""
    said: list[str] = []
    for row in rows:
        part = row.b if row.a is None else row.a
        if row.same or part is None or part.what not in ("name", "head", "constant", "results"):
            continue
        alone = row.a is None or row.b is None
        if part.what == "name":
            said.append(
                f"program {part.text.removesuffix(' =')} {'added' if row.a is None else 'removed'}"
            )
        elif part.what == "constant":
            said.append(f"constant {part.constant}: {_constant(row)}")
        elif not alone and row.a is not None and row.b is not None:
            said.append(_signature(row.a, row.b))
    return [_several(said)] if said else []


def _constant(row: Row) -> str:
    if row.apart is not None:
        return str(row.apart)
    if row.a is not None and row.b is not None:
        return "of another type"
    return "a value added" if row.a is None else "a value removed"


def _signature(a: Part, b: Part) -> str:
    """Say how binders or results differ."""
    what = "arguments" if a.what == "head" else "results"
    nested = " of a nested jaxpr" * bool(a.depth)
    atoms = [p.bound() or p.read() for p in (a, b)]
    types = [[str(x.aval) for x in xs] for xs in atoms]
    if types[0] == types[1]:
        return a.weakly(b) or f"other {what}{nested}"
    if len(types[0]) != len(types[1]):
        return f"{counted(len(types[0]), what[:-1])}{nested} to {len(types[1])}"
    changed = [f"{x} to {y}" for x, y in zip(*types, strict=True) if x != y]
    return f"{what}{nested}: {_several(changed)}"
