"""Pair the equations of two jaxprs that stand in each other's place.

`counterparts` takes the first of these ways that applies:

- Two jaxprs with equations of the same types, of which nearly all are the same but for literals and
  params, are paired one by one.
- Where one jaxpr was made from the other, its equations have kept their places in the text.
- Others are aligned as `diff` aligns them. Where that pairs equations only because they look alike,
  and their results are not used in the same places, the pair is given up for the two equations
  whose results are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jaxprtool.analyses.diffing.correspondence import align_equations
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import count_eqns, sub_jaxprs

__all__ = [
    "NO_EQUATION",
    "counterparts",
    "definitions",
    "giving",
    "in_order",
    "other_results",
    "results",
    "same_operation",
]

Pair = tuple[int, int]
NO_EQUATION = (None, 0)  # stands for binders and literals, which `results` does not have
_FEW = 8  # jaxprs are paired one by one if at most one equation in so many differs


def counterparts(a: Jaxpr, b: Jaxpr) -> list[Pair]:
    """Return pairs of the indices of equations that stand in each other's place, in order."""
    n = len(a.eqns)
    if a is b or _alike(a, b):
        return [(i, i) for i in range(n)]
    if written := _by_place(a, b):
        return written
    binders = [(i, i) for i in range(min(len(a.all_binders), len(b.all_binders)))]
    signatures = Signatures()
    pairs = align_equations(a, b, binders, signatures)
    return _by_use(a, b, pairs, _certain(a, b, pairs, signatures))


def definitions(jaxpr: Jaxpr) -> dict[Var, int]:
    """Map each variable that an equation binds to the index of that equation; binders of the jaxpr are left out."""
    return {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.out_binders}


def results(jaxpr: Jaxpr) -> dict[Var, tuple[int, int]]:
    """Map each variable that an equation binds to the index of that equation and the position among its results."""
    return {v: (i, k) for i, eqn in enumerate(jaxpr.eqns) for k, v in enumerate(eqn.out_binders)}


def other_results(a: Jaxpr, b: Jaxpr, pairs: Sequence[Pair]) -> list[int]:
    """Return the positions of the jaxprs' results that do not come from equations which are each other's counterparts."""
    partner, defined = dict(pairs), [_given(a), _given(b)]
    found: list[int] = []
    for k, (x, y) in enumerate(zip(a.outs, b.outs, strict=False)):
        (i, of_a), (j, of_b) = (
            d.get(z, NO_EQUATION) if isinstance(z, Var) else NO_EQUATION
            for d, z in zip(defined, (x, y), strict=True)
        )
        if (i is None) != (j is None) or (i is not None and (partner.get(i), of_a) != (j, of_b)):
            found.append(k)
    return found


def _given(jaxpr: Jaxpr) -> dict[Var, tuple[int, int]]:
    """Return `results`, only of the variables that are results of the jaxpr."""
    outs = {x for x in jaxpr.outs if isinstance(x, Var)}
    givers = [(i, e) for i, e in enumerate(jaxpr.eqns) if not outs.isdisjoint(e.out_binders)]
    return {v: (i, k) for i, e in givers for k, v in enumerate(e.out_binders) if v in outs}


def same_operation(
    a: JaxprEqn, b: JaxprEqn, signatures: Signatures, *, folded: bool = False
) -> bool:
    """Whether two equations do the same with as many operands, whatever the jaxprs in their params do.

    folded: whether a literal may stand where the other equation has a variable.
    """
    if a is b:
        return True
    lit = signatures.lit
    literals = [[x if type(x) is Lit else None for x in e.inputs] for e in (a, b)]
    for x, y in zip(*literals, strict=True):
        if x is None or y is None:
            if x is not y and not folded:
                return False
        elif x is not y and lit(x) != lit(y):
            return False
    return signatures.shallow(a, nested=False) == signatures.shallow(b, nested=False)


def giving(jaxpr: Jaxpr, k: int) -> JaxprEqn | None:
    """Return the equation that computes result k of a jaxpr; None for an argument or a literal."""
    x = jaxpr.outs[k]
    return next((e for e in jaxpr.eqns if x in e.out_binders), None)


def _by_place(a: Jaxpr, b: Jaxpr) -> list[Pair]:
    """Return the pairs of equations with the same place in a text; [] unless each equation of a has its place in b.

    Where a pass has put several equations in the place of one, all have its place: the last of
    them, which has its results, counts.
    """
    spans = [e.span and (e.span.source, e.span.start) for e in a.eqns]
    if None in spans or len({*spans}) < len(spans):
        return []
    where = {(e.span.source, e.span.start): j for j, e in enumerate(b.eqns) if e.span}
    pairs = [(i, where[span]) for i, span in enumerate(spans) if span in where]
    return in_order(pairs, a) if len(pairs) == len(spans) else []


def _alike(a: Jaxpr, b: Jaxpr) -> bool:
    """Whether two jaxprs have equations of the same types one by one, nearly all with the same operands and the same primitive."""
    if len(a.eqns) != len(b.eqns) or len(a.all_binders) != len(b.all_binders):
        return False
    names: dict[Any, Var] = dict(zip(a.all_binders, b.all_binders, strict=True))
    others = 0
    for p, q in zip(a.eqns, b.eqns, strict=True):
        if not _same_types(p.out_binders, q.out_binders):
            return False
        if p.primitive is not q.primitive:
            others += 1
        elif [*map(names.get, p.inputs)] != [*q.inputs]:  # also true where an operand is a literal
            others += not _same_operands(p, q, names)
        names.update(zip(p.out_binders, q.out_binders, strict=True))
    return others <= 1 + len(a.eqns) // _FEW


def _same_types(a: Sequence[Var], b: Sequence[Var]) -> bool:
    if len(a) != len(b):
        return False
    for v, w in zip(a, b, strict=True):
        if v.aval is not w.aval and v.aval.strong != w.aval.strong:
            return False
    return True


def _same_operands(p: JaxprEqn, q: JaxprEqn, names: dict[Any, Var]) -> bool:
    """Whether the variables among the operands correspond; literals may be others."""
    if len(p.inputs) != len(q.inputs):
        return False
    for x, y in zip(p.inputs, q.inputs, strict=True):
        if not (names.get(x) is y if isinstance(x, Var) else type(y) is Lit):
            return False
    return True


def _certain(a: Jaxpr, b: Jaxpr, pairs: Sequence[Pair], signatures: Signatures) -> set[int]:
    """Return the indices in a of pairs that compute the same from the same operands, all the way from the binders."""
    names = dict(zip(a.all_binders, b.all_binders, strict=False))
    found: set[int] = set()
    for i, j in pairs:
        p, q = a.eqns[i], b.eqns[j]
        sure = _same_operands(p, q, names) and _literals(p) == _literals(q)
        if sure and signatures.shallow(p, nested=True) == signatures.shallow(q, nested=True):
            found.add(i)
            names.update(zip(p.out_binders, q.out_binders, strict=True))
    return found


def _literals(eqn: JaxprEqn) -> list[str]:
    return [str(x) for x in eqn.inputs if type(x) is Lit]


def _by_use(a: Jaxpr, b: Jaxpr, pairs: Sequence[Pair], certain: set[int]) -> list[Pair]:
    """Exchange pairs whose results are used in different places for those whose results are used in the same; certain pairs stay."""
    found = dict(pairs)
    taken = {j: i for i, j in pairs}
    def_a, def_b = definitions(a), definitions(b)
    votes: dict[int, Counter[int]] = {}

    def vote(xs: Sequence[object], ys: Sequence[object], *, alike: bool = False) -> None:
        if len(xs) != len(ys):
            return
        pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if isinstance(x, Var)]
        there = {def_b[y] for _, y in pairs if isinstance(y, Var) and y in def_b}
        for x, y in zip(xs, ys, strict=True):
            i = def_a.get(x) if isinstance(x, Var) else None
            j = def_b.get(y) if isinstance(y, Var) else None
            if i is None or j is None:
                continue
            if found.get(i) in there:  # the same operands, perhaps in another order
                j = found[i]
            if not alike or a.eqns[i].primitive is b.eqns[j].primitive:
                votes.setdefault(i, Counter())[j] += 1

    vote(a.outs, b.outs)
    for i in range(len(a.eqns) - 1, -1, -1):
        said = votes.get(i)
        if i not in certain and said and not said[found.get(i, -1)]:
            j, _ = said.most_common(1)[0]
            other = taken.get(j)
            if other is None or not (other in certain or votes.get(other, Counter())[j]):
                taken.pop(found.pop(i, -1), None)
                if other is not None:
                    del found[other]
                found[i], taken[j] = j, i
        if i in found:
            p, q = a.eqns[i], b.eqns[found[i]]
            # two different operations may also read different operands: a conversion that only one program has
            vote(p.inputs, q.inputs, alike=p.primitive is not q.primitive)
    return in_order(sorted(found.items()), a)


def in_order(pairs: Sequence[Pair], a: Jaxpr) -> list[Pair]:
    """Return a subset of the pairs that is in order on both sides and stands for as many equations of a as possible.

    Equations inside count too: one that was moved past a loop is left out, and not the loop.

    Args:
      pairs: pairs of positions, sorted by the position in a.
      a: the jaxpr of the first positions.
    """
    if all(p[1] < q[1] for p, q in pairwise(pairs)):
        return [*pairs]
    # Where a chain may end in b, and how many equations it stands for: both grow.
    ends: list[tuple[int, int]] = []
    chains: dict[int, tuple[Pair, Any]] = {}
    for i, j in pairs:
        k = end = bisect_left(ends, (j, 0))
        stands_for, chain = (ends[k - 1][1], chains[ends[k - 1][0]]) if k else (0, None)
        stands_for += 1 + sum(count_eqns(c.jaxpr) for c in sub_jaxprs(a.eqns[i]))
        while end < len(ends) and ends[end][1] <= stands_for:
            end += 1
        ends[k:end] = [(j, stands_for)]
        chains[j] = (i, j), chain
    kept: list[Pair] = []
    chain = chains[ends[-1][0]] if ends else None
    while chain is not None:
        pair, chain = chain
        kept.append(pair)
    return kept[::-1]
