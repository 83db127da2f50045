"""Pair corresponding elements of two sequences, by keys of more and less detail.

Elements with equal keys of the most detail are paired first, and in the gaps between the pairs
those with equal keys of less. The pairing within a gap is patience diff: keys that occur once on
both sides are anchors. A gap without anchors is aligned by the algorithm of Myers ("An O(ND)
difference algorithm and its variations", 1986), which gives up after a number of edits and begins
anew where it has come furthest. So the time is nearly linear whatever the sequences are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from jaxprtool.ir.jaxpr import Value

__all__ = ["Gap", "Levels", "Pair", "align", "fill"]

Pair = tuple[int, int]
Gap = tuple[int, int, int, int]  # start and stop in a, start and stop in b
Level = tuple[Sequence[Value], Sequence[Value]]  # the keys of both sequences
Levels = Iterable[
    Level | Callable[[], Level]
]  # the most telling first; some are computed when they are needed

_EDITS = 100  # edits after which the alignment of a gap begins anew


def align(levels: Levels, n: int, m: int, exact: int = 0) -> list[Pair]:
    """Pair two sequences of lengths n and m.

    Args:
      levels: keys of the elements of both, the most telling first.
      exact: the first level at which gaps without anchors are compared element by element.

    Returns:
      Pairs of positions, in the order of both.
    """
    pairs: list[Pair] = []
    fill(levels, [(0, n, 0, m)], pairs, exact)
    return sorted(pairs)


def fill(levels: Levels, gaps: list[Gap], pairs: list[Pair], exact: int = 0) -> list[Gap]:
    """Find pairs in gaps and add them to `pairs`; return the gaps that are left."""
    for level, keys in enumerate(levels):
        if not gaps:
            break
        a, b = keys() if callable(keys) else keys
        unresolved: list[Gap] = []
        while gaps:
            gap = _trim(a, b, gaps.pop(), pairs)
            if gap[0] == gap[1] or gap[2] == gap[3]:
                continue
            found = _anchors(a, b, gap)
            if found:
                gaps += _between(gap, found)
            elif level >= exact:
                found = _common(a, b, gap)
                unresolved += _between(gap, found)
            else:
                unresolved.append(gap)
            pairs += found
        gaps = [g for g in unresolved if g[0] < g[1] and g[2] < g[3]]
    return gaps


def _trim(a: Sequence[Value], b: Sequence[Value], gap: Gap, pairs: list[Pair]) -> Gap:
    """Pair what is equal at both ends of a gap; return what is left of it."""
    i0, i1, j0, j1 = gap
    while i0 < i1 and j0 < j1 and a[i0] == b[j0]:
        pairs.append((i0, j0))
        i0, j0 = i0 + 1, j0 + 1
    while i0 < i1 and j0 < j1 and a[i1 - 1] == b[j1 - 1]:
        i1, j1 = i1 - 1, j1 - 1
        pairs.append((i1, j1))
    return i0, i1, j0, j1


def _anchors(a: Sequence[Value], b: Sequence[Value], gap: Gap) -> list[Pair]:
    """Return pairs of elements that occur once on both sides, as many as keep their order."""
    i0, i1, j0, j1 = gap
    once_a, once_b = Counter(a[i0:i1]), Counter(b[j0:j1])
    where = {b[j]: j for j in range(j0, j1) if once_b[b[j]] == 1}
    common = [(i, where[a[i]]) for i in range(i0, i1) if once_a[a[i]] == 1 and a[i] in where]
    tails: list[int] = []  # the smallest last j of an increasing run of each length
    ends: list[int] = []  # and where in `common` that run ends
    before: list[int] = []
    for k, (_, j) in enumerate(common):
        length = bisect_left(tails, j)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [k]
        before.append(ends[length - 1] if length else -1)
    run, k = [], ends[-1] if ends else -1
    while k >= 0:
        run.append(common[k])
        k = before[k]
    return run[::-1]


def _between(gap: Gap, pairs: list[Pair]) -> list[Gap]:
    i0, i1, j0, j1 = gap
    starts = [(i0, j0), *((i + 1, j + 1) for i, j in pairs)]
    stops = [*pairs, (i1, j1)]
    return [(p, q, r, s) for (p, r), (q, s) in zip(starts, stops, strict=True)]


def _common(a: Sequence[Value], b: Sequence[Value], gap: Gap) -> list[Pair]:
    """Return the pairs of a long common subsequence in a gap."""
    i0, i1, j0, j1 = gap
    both = {*a[i0:i1]} & {*b[j0:j1]}
    where_a = [i for i in range(i0, i1) if a[i] in both]
    where_b = [j for j in range(j0, j1) if b[j] in both]
    xs, ys = [a[i] for i in where_a], [b[j] for j in where_b]
    pairs: list[Pair] = []
    x = y = 0
    while x < len(xs) and y < len(ys):
        found, x, y = _run(xs, ys, x, y)
        pairs += [(where_a[p], where_b[q]) for p, q in found]
    return pairs


def _run(xs: Sequence[Value], ys: Sequence[Value], x0: int, y0: int) -> tuple[list[Pair], int, int]:
    """Find a shortest edit script from (x0, y0) on, as far as it comes; return its pairs, and where it ends."""
    n, m = len(xs) - x0, len(ys) - y0
    reach = {1: 0}  # for each diagonal x - y the furthest x that is reached
    trace: list[dict[int, int]] = []  # for each number of edits, what was reached with fewer
    best = (-1, 0, 0, 0)  # how far the furthest path comes, its edits, its diagonal, its x
    for edits in range(_EDITS + 1):
        trace.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            x = _start(reach, edits, k)[1]
            while x < n and x - k < m and xs[x0 + x] == ys[y0 + x - k]:
                x += 1
            reach[k] = x
            if x <= n and x - k <= m and 2 * x - k > best[0]:
                best = 2 * x - k, edits, k, x
        if best[0] == n + m:
            break
    _, edits, k, x = best
    return _back(trace, edits, k, x, (x0, y0)), x0 + x, y0 + x - k


def _start(reach: dict[int, int], edits: int, k: int) -> tuple[int, int]:
    """Return the diagonal from which a path gets to diagonal k by one edit, and the x at which it does."""
    if k == -edits or (k != edits and reach[k - 1] < reach[k + 1]):
        return k + 1, reach[k + 1]
    return k - 1, reach[k - 1] + 1


def _back(trace: list[dict[int, int]], edits: int, k: int, x: int, origin: Pair) -> list[Pair]:
    """Return the pairs on a path, found from its end to its beginning."""
    pairs: list[Pair] = []
    for d in range(edits, -1, -1):
        before, start = _start(trace[d], d, k)
        pairs += [(origin[0] + p, origin[1] + p - k) for p in range(x - 1, start - 1, -1)]
        k, x = before, trace[d][before]
    return pairs[::-1]
