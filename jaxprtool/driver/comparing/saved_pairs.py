"""Pair the equations of two runs by their saved results.

The key of an equation consists of its line, its scopes and the number of such equations before it.
Another release of JAX may make other operations of a line, more or fewer: then the equations of the
same line are aligned by their primitives and types. Where the file of Python was edited between the
runs, lines have other numbers, and all equations are aligned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxprtool.analyses.comparing.comparison import Written
from jaxprtool.analyses.diffing.align import align

__all__ = ["Kinds", "by_order", "kinds_of", "paired"]

Kind = tuple[str, tuple[str, ...]]  # name of the primitive, types of the results
Kinds = dict[str, Kind]


def kinds_of(places: Mapping[str, Written], types: Mapping[str, Sequence[str]]) -> Kinds:
    """Return primitive and result types of each equation, by its key."""
    return {k: (str(p.json().get("primitive")), tuple(types.get(k, ()))) for k, p in places.items()}


Places = tuple[Mapping[str, Written], Mapping[str, Written]]


def by_order(found: Mapping[str, str], a: Kinds, b: Kinds, places: Places) -> dict[str, str] | None:
    """Return the counterparts by the order in which equations ran, where lines of Python have other numbers in the runs; else None.

    They have where few of the pairs `found` by keys are of one kind, and more of those by order.
    """
    alike = _alike(found, a, b)
    if alike >= _ALIKE * min(len(a), len(b)):
        return None
    ordered = _in_order(a, b, places)
    return ordered if _alike(ordered, a, b) > alike else None


def _alike(found: Mapping[str, str], a: Kinds, b: Kinds) -> int:
    return sum(a[k] == b[other] for k, other in found.items())


def _in_order(a: Kinds, b: Kinds, places: Places) -> dict[str, str]:
    """Return the key in B of the counterpart of each equation of A, by the order in which they ran.

    Those in the same columns of Python are paired first, then others of the same kind, then those
    whose results have the same types; always those in the same steps and branches.
    """
    sides = [*zip(((x, [*x]) for x in (a, b)), places, strict=True)]
    ways = [[_way(at[k]) for k in keys] for (_, keys), at in sides]
    columns = [[_LINE.sub(r":\1", k) for k in keys] for (_, keys), _ in sides]
    kinds = [[x[k] for k in keys] for (x, keys), _ in sides]
    levels = [
        [[*zip(w, c, k, strict=True)] for w, c, k in zip(ways, columns, kinds, strict=True)],
        [[*zip(w, k, strict=True)] for w, k in zip(ways, kinds, strict=True)],
        [[(w, k[1]) for w, k in zip(*each, strict=True)] for each in zip(ways, kinds, strict=True)],
    ]
    keys, others = [*a], [*b]
    return {keys[p]: others[q] for p, q in align([(x, y) for x, y in levels], len(a), len(b))}


_ALIKE = 0.8  # the share of equations of one kind from which lines are taken for the same
_LINE = re.compile(r":\d+:(\d+)")  # in a key


def _way(place: Written) -> Any:
    """Return the primitives, steps and branches around an equation."""
    found = place.json()
    path: Sequence[dict[str, Any]] = found.get("path", ())
    steps = [tuple(p.get(x) for x in ("primitive", "param", "step", "branch")) for p in path]
    return *steps, *found.get("device", {}).items()


def paired(a: Kinds, b: Kinds) -> dict[str, str]:
    """Return the key in B of the counterpart of each equation of A; lines whose results have the
    same types are paired in order.
    """
    groups = _groups(a), _groups(b)
    found: dict[str, str] = {}
    for group, keys in groups[0].items():
        others = groups[1].get(group, [])
        if _complete(keys) and _complete(others):
            found.update(_aligned(keys, others, a, b))
        else:
            found.update((key, key) for key in keys if key in b)
    return found


def _groups(kinds: Kinds) -> dict[str, list[str]]:
    """Return the keys of the equations of one line and scope in one step of the loops around, in order."""
    groups: dict[str, list[str]] = {}
    for key in kinds:
        groups.setdefault(key.rpartition("#")[0], []).append(key)
    return groups


def _complete(keys: Sequence[str]) -> bool:
    """Whether all equations of a group were saved, so that their numbers are consecutive."""
    return all(key.rpartition("#")[2] == str(i) for i, key in enumerate(keys))


def _aligned(keys: Sequence[str], others: Sequence[str], a: Kinds, b: Kinds) -> dict[str, str]:
    kinds = [a[k] for k in keys], [b[k] for k in others]
    types = [x[1] for x in kinds[0]], [x[1] for x in kinds[1]]
    if types[0] == types[1]:
        return dict(zip(keys, others, strict=True))
    pairs = align([kinds, types], len(keys), len(others))
    i = j = 0
    for p, q in [*pairs, (len(keys), len(others))]:
        if p - i == q - j:  # equally many on both sides: they correspond in order
            pairs += zip(range(i, p), range(j, q), strict=True)
        i, j = p + 1, q + 1
    return {keys[p]: others[q] for p, q in pairs}
