"""The table of a run, and the golden file that keeps it: which cases do what JAX does, in which columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.columns import CANNOT, COLUMNS, FAILED, PASSED, REFUSED
from tests.conformance.harnesses import group_of

__all__ = ["GOLDEN", "Patterns", "merge", "read_golden", "table", "text", "worse"]

GOLDEN = Path(__file__).parent.parent / "golden" / "conformance.txt"

Patterns = dict[str, str]  # by case, a letter for each column

_ALL_PASSED = PASSED * len(COLUMNS)
_HEADING = "cases that do not pass in every column:"
_LEGEND = f"""\
JAX's own cases by primitive. A number counts cases that passed; {FAILED}: ours differs from JAX's; {REFUSED}: we refuse, and
JAX does not; {CANNOT}: JAX cannot do it either. `python -m tests.conformance --update-golden` writes this file.
"""


def _cell(letters: Counter[str]) -> str:
    rest = "".join(f"+{letters[c]}{c}" for c in (FAILED, REFUSED, CANNOT) if letters[c])
    return f"{letters[PASSED]}{rest}"


def table(patterns: Patterns) -> str:
    """Counts by primitive and column, and of all primitives together."""
    rows: dict[str, list[Counter[str]]] = {}
    for case, letters in sorted(patterns.items()):
        total = rows.setdefault("all", [Counter() for _ in COLUMNS])
        row = rows.setdefault(group_of(case), [Counter() for _ in COLUMNS])
        for count, together, letter in zip(row, total, letters, strict=True):
            count[letter] += 1
            together[letter] += 1
    cells = [["primitive", "cases", *COLUMNS]]
    for group in sorted(rows, key=lambda g: (g == "all", g)):
        counts = rows[group]
        cells.append([group, str(counts[0].total()), *map(_cell, counts)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )
    return "\n".join(lines) + "\n"


def text(patterns: Patterns) -> str:
    """The golden file: the table, and each case that has another letter than `p`."""
    others = [f"{letters} {case}" for case, letters in sorted(patterns.items()) if letters != _ALL_PASSED]
    return "\n".join([_LEGEND, table(patterns), _HEADING, *others, ""])


def read_golden() -> Patterns:
    """The cases of the golden file that do not pass in every column."""
    lines = GOLDEN.read_text().splitlines()
    rest = lines[lines.index(_HEADING) + 1 :]
    return {case: letters for letters, _, case in (line.partition(" ") for line in rest)}


def expected(golden: Patterns, case: str) -> str:
    """The letters that a case has to have."""
    return golden.get(case, _ALL_PASSED)


def worse(golden: Patterns, patterns: Patterns) -> list[str]:
    """The cells that passed, and do not any more; with the columns' names, for people."""
    names = list(COLUMNS)
    return [
        f"{case}: {names[i]}: {was} -> {now}"
        for case, letters in sorted(patterns.items())
        for i, (was, now) in enumerate(zip(expected(golden, case), letters, strict=True))
        if now != was and now != PASSED
    ]
