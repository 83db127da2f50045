"""Recognition of unrolled loops: runs of equations that repeat with a period, each turn using
results of the turn before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.jaxpr import JaxprEqn, Lit
from jaxprtool.ir.walk import count_eqns, sub_jaxprs

__all__ = ["Repetition", "unrolled_runs"]

LEAST_TURNS, LEAST_SIZE, LEAST_EQUATIONS = (
    8,
    3,
    32,
)  # the size is the number of equations of a turn, including those in nested jaxprs
_CANDIDATES = 6  # the number of periods that are tried
_LOOKED_AT = 16  # the number of turns whose operands are compared


class Repetition(NamedTuple):
    """Equations that repeat.

    Attributes:
      start: the position of the first equation.
      period: the number of equations in a turn.
      turns: the number of turns.
    """

    start: int
    period: int
    turns: int


def unrolled_runs(eqns: Sequence[JaxprEqn]) -> Iterator[Repetition]:
    """Yield the repetitions in a list of equations, in the order of their starts; they do not
    overlap.
    """
    if len(eqns) < LEAST_EQUATIONS:
        return
    kinds = _kinds(eqns)
    made: dict[Any, int] | None = None
    end = 0
    stretches = sorted(_periodic(kinds))
    sizes = [*map(_size, eqns)] if stretches else []
    for start, period, stop in stretches:
        if start < end:
            continue
        if sum(sizes[start : start + period]) < LEAST_SIZE:
            end = stop  # longer periods of the same stretch are no better
            continue
        if made is None:
            made = {v: i for i, eqn in enumerate(eqns) for v in eqn.out_binders}
        run = _carried(eqns, made, start, period, stop)
        size = 0 if run is None else sum(sizes[run.start : run.start + run.period * run.turns])
        if run is not None and size >= LEAST_EQUATIONS:
            yield run
            end = run.start + run.period * run.turns


def _size(eqn: JaxprEqn) -> int:
    """Return the number of equations in an equation, itself included."""
    if not eqn.primitive.holds_jaxprs:
        return 1
    return 1 + sum(count_eqns(c.jaxpr) for c in sub_jaxprs(eqn))


def _kinds(eqns: Sequence[JaxprEqn]) -> list[int]:
    """Return a number for each equation, equal for equations with the same primitive and result
    types.
    """
    numbers: dict[Any, int] = {}
    found: list[int] = []
    for eqn in eqns:
        binders = eqn.out_binders
        key = (
            eqn.primitive,
            binders[0].aval if len(binders) == 1 else tuple([v.aval for v in binders]),
        )
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _periodic(kinds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, period, stop) for stretches in which kinds repeat with a period.

    The most frequent distances between equal kinds are tried as periods first.
    """
    last: dict[Any, int] = {}
    back: list[int] = []
    # a kind may occur several times in a turn; four kinds in a row are more specific
    for i, key in enumerate(zip(kinds, kinds[1:], kinds[2:], kinds[3:], strict=False)):
        back.append(i - last.get(key, i))
        last[key] = i
    distances = Counter(back)
    del distances[0]  # of first occurrences
    n = len(kinds)
    for period, often in distances.most_common(_CANDIDATES):
        if often < LEAST_TURNS - 4:  # one key spans four equations
            break
        least = (LEAST_TURNS - 1) * period
        at, last_end, stop = least - 1, 0, n - period
        while at < stop:  # a stretch that is long enough contains one of these positions
            if kinds[at] != kinds[at + period]:
                at += least
                continue
            begin, end = at, at + 1
            while begin > last_end and kinds[begin - 1] == kinds[begin - 1 + period]:
                begin -= 1
            while end < stop and kinds[end] == kinds[end + period]:
                end += 1
            if end - begin >= least:
                yield begin, period, end + period
            at, last_end = end + least, end


def _carried(
    eqns: Sequence[JaxprEqn], made: dict[Any, int], start: int, period: int, stop: int
) -> Repetition | None:
    """Return the longest part of a stretch in which the operands of each turn come from the same
    positions, relative to the turn, and each turn uses results of the turn before; None if there is
    none.
    """

    looked_at = min(stop, start + _LOOKED_AT * period)
    shapes = [_origins(i, eqns[i], made, start, 2 * period) for i in range(start, looked_at)]
    same = [False] * period
    same += [
        now == before or _agree(before, now)
        for before, now in zip(shapes, shapes[period:], strict=False)
    ]
    best, begin = (0, 0), None
    for i in range(len(same) + 1):
        if i < len(same) and same[i]:
            begin = i if begin is None else begin
        elif begin is not None:
            best = max(best, (i - begin, begin - period))
            begin = None
    length, first = best
    if first + period + length == looked_at - start:
        length += stop - looked_at  # assume that the rest, which has the same kinds, continues so
    turns = (length + period) // period
    if turns < LEAST_TURNS:
        return None
    turn = range(first + 2 * period, first + 3 * period)
    chained = any(isinstance(d, int) and d > i - turn[0] for i in turn for d in shapes[i])
    return Repetition(start + first, period, turns) if chained else None


def _origins(
    i: int, eqn: JaxprEqn, made: dict[Any, int], start: int, most: int
) -> tuple[int | None, ...]:
    """Return for each operand how many equations before it was made, if fewer than `most` and not
    before `start`; None for others, 0 for literals.
    """
    found: list[int | None] = []
    for x in eqn.inputs:
        if type(x) is Lit:
            found.append(0)
            continue
        at = made.get(x, -1)
        found.append(i - at if at >= start and i - at < most else None)
    return tuple(found)


def _agree(before: tuple[int | None, ...], now: tuple[int | None, ...]) -> bool:
    """Whether operands come from the same relative positions, or in the earlier turn from
    outside.
    """
    return len(before) == len(now) and all(
        a == b or a is None for a, b in zip(before, now, strict=True)
    )
