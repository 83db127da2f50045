"""Pair the equations of two runs by their saved results.

The key of an equation consists of its line, its scopes and the number of such equations before it.
Another release of JAX may make other operations of a line, more or fewer: then the equations of the
same line are aligned by their primitives and types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxprtool.analyses.comparing.comparison import Written
from jaxprtool.analyses.diffing.align import align

__all__ = ["Kinds", "kinds_of", "paired"]

Kind = tuple[str, tuple[str, ...]]  # name of the primitive, types of the results
Kinds = dict[str, Kind]


def kinds_of(places: Mapping[str, Written], types: Mapping[str, Sequence[str]]) -> Kinds:
    """Return primitive and result types of each equation, by its key."""
    return {k: (str(p.json().get("primitive")), tuple(types.get(k, ()))) for k, p in places.items()}


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
