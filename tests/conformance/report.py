"""The table of a run, and the golden file that keeps it: which harnesses do what JAX does, in which columns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.conformance.columns import CANNOT, COLUMNS, FAILED, PASSED, REFUSED
from tests.conformance.harnesses import group_of, harness_names

__all__ = ["GOLDEN", "Letters", "read_golden", "table", "text", "worse"]

GOLDEN = Path(__file__).parent.parent / "golden" / "conformance.txt"

Letters = dict[str, str]  # by harness, the outcome in each column

_ALL_PASSED = PASSED * len(COLUMNS)
_HEADING = "Not passed in every column:"
_LEGEND = f"""\
JAX's own cases by primitive, and how many of them come out as JAX's in each column. A number counts those that pass;
{FAILED}: ours differs from JAX's; {REFUSED}: we refuse, and JAX does not; {CANNOT}: JAX cannot do it either.
`python -m tests.conformance --update-golden` writes this file.
"""


def table(letters: Letters) -> str:
    """Counts by primitive and column, and of all primitives together."""
    rows: dict[str, list[Counter[str]]] = {}
    for name, row in letters.items():
        for group in (group_of(name), "all"):
            counts = rows.setdefault(group, [Counter() for _ in COLUMNS])
            for count, letter in zip(counts, row, strict=True):
                count[letter] += 1
    cells = [["primitive", "cases", *COLUMNS]]
    for group in sorted(rows, key=lambda g: (g == "all", g)):
        cells.append([group, str(rows[group][0].total()), *map(_cell, rows[group])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )
    return "\n".join(lines) + "\n"


def _cell(counts: Counter[str]) -> str:
    rest = "".join(f"+{counts[c]}{c}" for c in (FAILED, REFUSED, CANNOT) if counts[c])
    return f"{counts[PASSED]}{rest}"


def text(letters: Letters) -> str:
    """The golden file: the table, and each harness that has another letter than `p`."""
    others = [f"{row} {name}" for name, row in letters.items() if row != _ALL_PASSED]
    return "\n".join([_LEGEND, table(letters), _HEADING, *others, ""])


def read_golden() -> Letters:
    """The letters of all harnesses, as the golden file has them."""
    lines = GOLDEN.read_text().splitlines()
    listed = (line.partition(" ") for line in lines[lines.index(_HEADING) + 1 :])
    others = {name: row for row, _, name in listed}
    return {name: others.get(name, _ALL_PASSED) for name in harness_names()}


def worse(letters: Letters) -> list[str]:
    """The cells that have another letter than in the golden file, and do not pass, for people."""
    golden, columns = read_golden(), list(COLUMNS)
    return [
        f"{name}: {columns[i]}: {golden[name][i]} -> {letter}"
        for name, row in letters.items()
        for i, letter in enumerate(row)
        if letter not in (golden[name][i], PASSED)
    ]
