"""Find where a sequence repeats with a period.

Substrings of 2, 4, 8, ... elements get numbers, equal ones the same, each from those of its halves
(Karp, Miller and Rosenberg, "Rapid identification of repeated patterns in strings, trees and
arrays", 1972). Where a substring of length m has occurred d places before, with m / 2 < d <= m,
both overlap or touch, so that the sequence has the period d from one to the end of the other. All
stretches of three periods and more are found in this way, in n log n steps for n elements, fewer
where few substrings repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["UNIQUE", "Stretch", "doubled", "stretches", "without_single"]

UNIQUE = -1  # stands for an element, or substring, that does not occur twice


class Stretch(NamedTuple):
    """A part of a sequence in which each element equals the one a period before, if that is in the part too.

    Attributes:
      start: the index of its first element.
      stop: the index after its last element.
      period: the number of elements in a period.
    """

    start: int
    stop: int
    period: int


def stretches(kinds: Sequence[int]) -> Iterator[Stretch]:
    """Yield the stretches of three periods and more of a sequence, in no order; some with fewer periods are among them.

    Args:
      kinds: the elements; `UNIQUE` for one that no other is equal to.
    """
    names, length = without_single(kinds), 1
    while names:
        yield from _periodic(names, length)
        names = doubled(names, length)
        length *= 2


def doubled(names: Sequence[int], length: int) -> Sequence[int]:
    """Turn numbers of substrings of a length into those of twice the length; empty where none occurs twice."""
    numbers: dict[tuple[int, int], int] = {}
    found: list[int] = []
    for a, b in zip(names, names[length:], strict=False):
        if a == UNIQUE or b == UNIQUE:
            found.append(UNIQUE)
        else:
            found.append(numbers.setdefault((a, b), len(numbers)))
    return without_single(found)


def without_single(names: Sequence[int]) -> Sequence[int]:
    """Return numbers with `UNIQUE` in the place of those that occur once; empty where all do."""
    counts = Counter(names)
    found = [x if x != UNIQUE and counts[x] > 1 else UNIQUE for x in names]
    return found if any(x != UNIQUE for x in found) else ()


def _periodic(names: Sequence[int], length: int) -> Iterator[Stretch]:
    """Yield the stretches with periods from more than half of a length up to the length."""
    last: dict[int, int] = {}
    begin = before = period = -1
    for i, name in enumerate(names):
        if name == UNIQUE:
            continue
        at = last.get(name)
        last[name] = i
        d = 0 if at is None else i - at
        if not length < 2 * d <= 2 * length:
            continue
        if d != period or i != before + 1:
            if period > 0:
                yield Stretch(begin - period, before + length, period)
            begin, period = i, d
        before = i
    if period > 0:
        yield Stretch(begin - period, before + length, period)
