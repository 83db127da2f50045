"""A diff as a page of HTML: one file that needs no other, in which all text from programs is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jaxprtool.analyses.diffing.rows import Part, Row
from jaxprtool.analyses.diffing.text import hunks
from jaxprtool.ir.printable import one_line

__all__ = ["Section", "cells", "page"]

_STYLE = """
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; margin-bottom: 2rem; }
td, th { font-family: ui-monospace, monospace; font-size: 0.85rem; vertical-align: top; padding: 0 0.5rem; }
td { white-space: pre-wrap; overflow-wrap: anywhere; }
th { text-align: left; }
.n { width: 4rem; text-align: right; opacity: 0.6; }
.hunk { opacity: 0.7; padding-top: 0.8rem; }
.removed { background: rgba(255, 80, 80, 0.22); }
.added { background: rgba(60, 190, 90, 0.22); }
.moved { background: rgba(90, 130, 255, 0.22); }
.note { opacity: 0.6; }
"""


class Section(NamedTuple):
    """The diff of two programs, or of two files.

    Attributes:
      names: the names of both.
      summary: what differs, in one line.
      rows: the lines of both; empty where there is nothing to show.
    """

    names: tuple[str, str]
    summary: str
    rows: Sequence[Row] = ()


class Cell(NamedTuple):
    """One side of a line: its number, its text, a note, and whether it is removed, added, moved, or none of these."""

    number: str
    text: str
    note: str
    kind: str


def cells(row: Row) -> tuple[Cell, Cell]:
    """Return both sides of a line."""
    notes = row.notes
    return (
        _cell(row.a, notes[0], "" if row.same else "moved" if row.moved else "removed"),
        _cell(row.b, notes[1], "" if row.same else "moved" if row.moved else "added"),
    )


def _cell(part: Part | None, note: str, kind: str) -> Cell:
    if part is None:
        return Cell("", "", "", "")
    line = part.line
    return Cell("" if line is None else str(line), str(part), note, kind)


def page(sections: Iterable[Section], context: int = 3) -> str:
    """Return the page.

    Args:
      sections: what it shows.
      context: how many lines around each change are shown.
    """
    found = ['<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">']
    found += [f"<title>jaxprtool diff</title><style>{_STYLE}</style></head><body>"]
    for section in sections:
        found += _section(section, context)
    return "\n".join([*found, "</body></html>\n"])


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def _escaped(text: str) -> str:
    """Return a text in HTML, as `html.escape` does; the import of that module takes longer than a small diff."""
    return one_line(text).translate(_ENTITIES)


def _section(section: Section, context: int) -> Iterator[str]:
    a, b = map(_escaped, section.names)
    yield f"<h2>{a if a == b else f'{a} &rarr; {b}'}</h2>\n<p>{_escaped(section.summary)}</p>"
    if not section.rows:
        return
    yield '<table><colgroup><col class="n"><col><col class="n"><col></colgroup>'
    yield f"<tr><th></th><th>{a}</th><th></th><th>{b}</th></tr>"
    for hunk in hunks(section.rows, context):
        yield f'<tr><td colspan="4" class="hunk">{_escaped(hunk.header)}</td></tr>'
        for row in hunk.rows:
            yield f"<tr>{''.join(map(_columns, cells(row)))}</tr>"
    yield "</table>"


def _columns(cell: Cell) -> str:
    note = f' <span class="note"># {_escaped(cell.note)}</span>' if cell.note else ""
    text = _escaped(cell.text)
    return f'<td class="n">{cell.number}</td><td class="{cell.kind}">{text}{note}</td>'
