"""Which equations of two jaxprs correspond.

Equations that compute the same values from the same operands are paired first, by keys that depend on the operands' own
equations to some depth. In the gaps between the pairs the depth is reduced step by step, down to the operation and the
result types alone. The pairing within a gap is patience diff: keys that occur once on both sides are anchors. It takes
time n log n.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from jaxprtool.analyses.signature import Signatures
from jaxprtool.ir.jaxpr import Jaxpr, Lit, Value

__all__ = ["align", "align_equations"]

Pair = tuple[int, int]
Gap = tuple[int, int, int, int]  # a from, a to, b from, b to

SMALL = 200 * 200  # size of a gap (product of its sides) that is compared element by element
_DEPTHS = (8, 2, 1)  # how far the keys between the deepest and the shallowest look


def align_equations(
    a: Jaxpr, b: Jaxpr, binders: Sequence[Pair], signatures: Signatures
) -> list[Pair]:
    """Pairs of positions of corresponding equations, in order.

    Args:
      a, b: the jaxprs.
      binders: which of their binders correspond.
      signatures: numbers for keys.
    """
    deep_a, near_a = _keys(a, {i: n for n, (i, _) in enumerate(binders)}, signatures)
    deep_b, near_b = _keys(b, {j: n for n, (_, j) in enumerate(binders)}, signatures, side=1)
    levels = [(deep_a, deep_b), *zip(near_a, near_b, strict=True)]
    return align(levels, len(a.eqns), len(b.eqns), exact=len(_DEPTHS) + 1)


def _keys(
    jaxpr: Jaxpr, binders: dict[int, int], signatures: Signatures, side: int = 0
) -> tuple[list[int], list[list[int]]]:
    """For each equation its deepest key (value numbers), and keys of less and less depth."""
    number = signatures.number
    source: dict[Any, tuple[int, int]] = {}
    deep: dict[Any, Any] = {}
    for i, v in enumerate(jaxpr.all_binders):
        deep[v] = ("in", binders[i]) if i in binders else ("only", side, i)
    values, shallow, full = [], [], []
    for n, eqn in enumerate(jaxpr.eqns):
        shallow.append(signatures.shallow(eqn, nested=False))
        full.append(signatures.shallow(eqn, nested=True))
        ins = tuple([deep.get(x) if type(x) is not Lit else signatures.lit(x) for x in eqn.inputs])
        values.append(number(("value", full[n], ins)))
        for k, v in enumerate(eqn.out_binders):
            deep[v] = (values[n], k)
            source[v] = (n, k)
    near, keys = {}, full
    for depth in range(max(_DEPTHS) + 1):
        near[depth] = keys
        keys = [
            number(
                (
                    "near",
                    depth,
                    full[n],
                    tuple([_operand(x, source, keys, signatures) for x in e.inputs]),
                )
            )
            for n, e in enumerate(jaxpr.eqns)
        ]
    names = [number(("name", e.primitive.name)) for e in jaxpr.eqns]
    types = [number(("types", *[v.aval.strong for v in e.out_binders])) for e in jaxpr.eqns]
    return values, [*(near[d] for d in _DEPTHS), full, shallow, names, types]


def _operand(x: Value, source: dict[Any, Pair], keys: list[int], signatures: Signatures) -> Value:
    if type(x) is Lit:
        return signatures.lit(x)
    if x not in source:
        return x.aval.strong
    n, k = source[x]
    return keys[n], k


def align(
    levels: Sequence[tuple[Sequence[Value], Sequence[Value]]], n: int, m: int, exact: int = 0
) -> list[Pair]:
    """Pair two sequences of lengths n and m.

    Args:
      levels: keys of the elements of both, the most telling first.
      exact: the first level at which small gaps without anchors are compared element by element.
    """
    pairs: list[Pair] = []
    gaps: list[Gap] = [(0, n, 0, m)]
    for level, (a, b) in enumerate(levels):
        unresolved: list[Gap] = []
        while gaps:
            gap = _trim(a, b, gaps.pop(), pairs)
            if gap[0] == gap[1] or gap[2] == gap[3]:
                continue
            anchors = _anchors(a, b, gap)
            if not anchors and level >= exact:
                anchors = _match(a, b, gap)
            if anchors:
                pairs += anchors
                gaps += _between(gap, anchors)
            else:
                unresolved.append(gap)
        gaps = unresolved
    return sorted(pairs)


def _match(a: Sequence[Value], b: Sequence[Value], gap: Gap) -> list[Pair]:
    """Pair the elements of a small gap by a longest common subsequence (about)."""
    i0, i1, j0, j1 = gap
    if (i1 - i0) * (j1 - j0) > SMALL:
        return []
    blocks = SequenceMatcher(None, a[i0:i1], b[j0:j1], autojunk=False).get_matching_blocks()
    return [(i0 + i + k, j0 + j + k) for i, j, size in blocks for k in range(size)]


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
    """Elements that occur once on both sides, as many as keep their order."""
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


def _between(gap: Gap, anchors: list[Pair]) -> list[Gap]:
    i0, i1, j0, j1 = gap
    starts = [(i0, j0), *((i + 1, j + 1) for i, j in anchors)]
    stops = [*anchors, (i1, j1)]
    return [(p, q, r, s) for (p, r), (q, s) in zip(starts, stops, strict=True)]
