"""Reorder equations without a change of dataflow or effects: into a canonical order, or into that of another jaxpr.

Equations that have effects, or see those of others, keep their order. All others may stand anywhere
after what they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from jaxprtool.analyses.memory.schedules import is_ordered
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Value

__all__ = ["Numbers", "canonical_order", "following", "matches"]


class Numbers(Protocol):
    """Hands out numbers for keys, equations and literals; `diffing.keys.Keys` is one.

    Attributes:
      labels: the labels of jaxprs whose binders correspond by position, as far as they are known.
    """

    labels: dict[Jaxpr, list[Any]]

    def number(self, key: Value) -> Any: ...
    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> Any: ...
    def lit(self, x: Lit) -> Value: ...


def canonical_order(jaxpr: Jaxpr, numbers: Numbers) -> list[JaxprEqn]:
    """Return the equations in an order that does not depend on the one in which they stand.

    Of the equations that can come next, the one with the smallest label is taken, then the one
    whose operands were computed first. A label says what an equation computes and how its results
    are used, so that equations with one label can stand for each other.
    """
    labels = _labels(jaxpr, _by_position(jaxpr), numbers)
    place: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.all_binders)}

    def key(i: int) -> tuple[Any, ...]:
        return labels[i], tuple([place.get(x, -1) for x in jaxpr.eqns[i].inputs])

    def taken(i: int) -> None:
        for v in jaxpr.eqns[i].out_binders:
            place[v] = len(place)

    return [jaxpr.eqns[i] for i in _scheduled(jaxpr, key, taken)]


def _by_position(jaxpr: Jaxpr) -> dict[Any, Any]:
    """Return keys of binders by their positions."""
    return {v: ("in", i) for i, v in enumerate(jaxpr.all_binders)}


def _labels(jaxpr: Jaxpr, ins: Mapping[Any, Any], numbers: Numbers) -> list[Any]:
    """Return a label for each equation: of what it computes, then of who reads it, then of both together."""
    if ins != _by_position(jaxpr):
        return _computed(jaxpr, ins, numbers)
    found = numbers.labels.get(jaxpr)
    if found is None:
        found = numbers.labels[jaxpr] = _computed(jaxpr, ins, numbers)
    return found


def _computed(jaxpr: Jaxpr, ins: Mapping[Any, Any], numbers: Numbers) -> list[Any]:
    number, eqns = numbers.number, jaxpr.eqns
    own: list[Any] = []
    effects = 0
    for eqn in eqns:
        ordered = is_ordered(eqn)
        own.append((numbers.shallow(eqn, nested=True), effects if ordered else None))
        effects += ordered
    labels = _forward(jaxpr, ins, numbers, own)
    readers: dict[Any, list[Any]] = {}
    for k, x in enumerate(jaxpr.outs):
        if type(x) is not Lit:
            readers.setdefault(x, []).append((-1, k))
    for i in range(len(eqns) - 1, -1, -1):
        eqn = eqns[i]
        uses = [tuple(sorted(readers.get(v, ()))) for v in eqn.out_binders]
        labels[i] = number(("uses", labels[i], tuple(uses)))
        for k, x in enumerate(eqn.inputs):
            if type(x) is not Lit:
                readers.setdefault(x, []).append((labels[i], k))
    return _forward(jaxpr, ins, numbers, labels)


def _forward(
    jaxpr: Jaxpr, ins: Mapping[Any, Any], numbers: Numbers, own: Sequence[Any]
) -> list[Any]:
    """Return a number for each equation, made from its own key and the numbers of its operands' equations."""
    known: dict[Any, Any] = dict(ins)
    number, lit = numbers.number, numbers.lit
    found: list[Any] = []
    for eqn, key in zip(jaxpr.eqns, own, strict=True):
        operands = tuple([lit(x) if type(x) is Lit else known.get(x) for x in eqn.inputs])
        label = number(("computes", key, operands))
        found.append(label)
        for k, v in enumerate(eqn.out_binders):
            known[v] = (label, k) if k else label
    return found


def _scheduled(jaxpr: Jaxpr, key: Any, taken: Any) -> list[int]:
    """Return the indices of the equations in order: of those that can come next, the one with the least key."""
    needs, readers = _needs(jaxpr)
    ready = [(key(i), i) for i, n in enumerate(needs) if not n]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heappop(ready)
        order.append(i)
        taken(i)
        for j in readers[i]:
            needs[j] -= 1
            if not needs[j]:
                heappush(ready, (key(j), j))
    return order


def _needs(jaxpr: Jaxpr) -> tuple[list[int], list[list[int]]]:
    """Return for each equation how many others have to come before it, and which have to come after it."""
    made: dict[Any, int] = {}
    needs: list[int] = []
    readers: list[list[int]] = [[] for _ in jaxpr.eqns]
    last = None  # the last equation whose order is that of the program
    for i, eqn in enumerate(jaxpr.eqns):
        before = {made[x] for x in eqn.inputs if type(x) is not Lit and x in made}
        if is_ordered(eqn):
            if last is not None:
                before.add(last)
            last = i
        needs.append(len(before))
        for j in before:
            readers[j].append(i)
        made.update(dict.fromkeys(eqn.out_binders, i))
    return needs, readers


# ---- one jaxpr in the order of another

_LEVELS = 4  # of likeness: the same; but for literals; but for params; but for the operation


def matches(
    a: Jaxpr, b: Jaxpr, binders: Sequence[tuple[int, int]], numbers: Numbers
) -> dict[int, int]:
    """Match the equations of b with those of a that do the same, wherever they stand; return indices in a by those in b.

    Equations that do the same are matched first, then those that do nearly the same with the same
    variables.

    Args:
      a, b: the jaxprs.
      binders: which of their binders correspond.
      numbers: hands out numbers for keys.
    """
    ins_a = {a.all_binders[i]: ("in", n) for n, (i, _) in enumerate(binders)}
    ins_b = {b.all_binders[j]: ("in", n) for n, (_, j) in enumerate(binders)}
    literals: dict[Any, int] = {}
    codes = [dict[Any, int]() for _ in range(_KINDS)]
    of_a = _Side(a, _labels(a, ins_a, numbers), numbers, literals, codes)
    of_b = _Side(b, _labels(b, ins_b, numbers), numbers, literals, codes, is_first=False)
    table = _Table(of_a, of_b, binders)
    for level in range(_LEVELS):
        if len(table.found) < min(len(a.eqns), len(b.eqns)):
            table.match(level)
    return table.found


_OPEN = -1  # the number of an operand that may be anything
_ALONE = -1  # the number of a key that no equation of a has
_KINDS = _LEVELS + 1  # of keys; the first `_EXACT_KINDS` say exactly what an equation computes
_EXACT_KINDS = 2


class _Side:
    """What the equations of a jaxpr do, and what they read.

    Attributes:
      jaxpr: the jaxpr.
      own: for each kind of key, the most telling first, a number for the key of each equation
        without its operands; `_ALONE` where only b has it.
      operands: the operands of each equation: variables, and numbers below `_OPEN` for literals.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        labels: Sequence[Any],
        numbers: Numbers,
        literals: dict[Any, int],
        codes: Sequence[dict[Any, int]],
        is_first: bool = True,
    ):
        """`codes` has the numbers of the keys of each kind, to which those of the first side are added."""
        self.jaxpr = jaxpr
        eqns = jaxpr.eqns
        full, bare = ([numbers.shallow(e, nested=x) for e in eqns] for x in (True, False))
        types = [tuple([v.aval.strong for v in e.out_binders]) for e in eqns]
        names = [e.primitive.name for e in eqns]
        keys = [zip(full, labels, strict=True), full, bare, zip(names, types, strict=True), types]
        self.own: list[list[int]] = []
        for found, known in zip(keys, codes, strict=True):
            if is_first:
                self.own.append([known.setdefault(key, len(known)) for key in found])
            else:
                self.own.append([known.get(key, _ALONE) for key in found])

        def literal(x: Lit) -> int:
            return literals.setdefault(numbers.lit(x), _OPEN - 1 - len(literals))

        self.operands = [[literal(x) if type(x) is Lit else x for x in e.inputs] for e in eqns]


def _loose(operands: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of operands without those of literals, which count only in exact kinds of keys."""
    return (
        tuple([max(x, _OPEN) for x in operands]) if operands and min(operands) < _OPEN else operands
    )


class _Table:
    """The equations of a, by what they do; each may be matched with one of b.

    Attributes:
      found: the matches: indices in a by those in b.
      taken: the indices in a that are matched.
    """

    def __init__(self, a: _Side, b: _Side, binders: Sequence[tuple[int, int]]):
        self.a, self.b = a, b
        self.found: dict[int, int] = {}
        self.taken: set[int] = set()
        eqns = (*a.jaxpr.eqns, *b.jaxpr.eqns)
        self.width = max((len(e.out_binders) for e in eqns), default=0)
        first = len(eqns) * self.width  # results have the numbers below this
        known: dict[Any, int] = {
            a.jaxpr.all_binders[i]: first + n for n, (i, _) in enumerate(binders)
        }
        self.ins = {b.jaxpr.all_binders[j]: first + n for n, (_, j) in enumerate(binders)}
        self.operands: list[tuple[int, ...]] = []
        for i, eqn in enumerate(a.jaxpr.eqns):
            self.operands.append(_numbered(a.operands[i], known))
            known.update(zip(eqn.out_binders, self._results(i), strict=False))
        self.rows: list[dict[Any, list[int]]] = []  # by kind of key; the last index is taken first

    def _results(self, i: int) -> range:
        """Return numbers for the results of an equation."""
        return range(i * self.width, (i + 1) * self.width)

    def match(self, level: int) -> None:
        """Match equations of b that have no match, at a level of likeness; operands that correspond count as the same."""
        while len(self.rows) < level + _EXACT_KINDS:
            self.rows.append(self._rows(len(self.rows)))
        known = dict(self.ins)
        for j, eqn in enumerate(self.b.jaxpr.eqns):
            i = self.found.get(j)
            if i is None:
                i = self._take(j, _numbered(self.b.operands[j], known))
                if i is not None:
                    self.found[j] = i
            alone = len(self.a.operands) + j
            results = self._results(alone if i is None else i)
            known.update(zip(eqn.out_binders, results, strict=False))

    def _rows(self, kind: int) -> dict[Any, list[int]]:
        """Return the equations of a that are not taken, by their keys of one kind, with the numbers of their operands."""
        rows: dict[Any, list[int]] = {}
        own, exact = self.a.own[kind], kind < _EXACT_KINDS
        for i in range(len(self.operands) - 1, -1, -1):
            if i not in self.taken:
                operands = self.operands[i]
                key = own[i], operands if exact else _loose(operands)
                rows.setdefault(key, []).append(i)
        return rows

    def _take(self, j: int, operands: tuple[int, ...]) -> int | None:
        """Take the equation of a that has the same key as equation j of b, by the most telling kind; None where none is left."""
        for kind, rows in enumerate(self.rows):
            if kind == _EXACT_KINDS:
                operands = _loose(operands)
            own = self.b.own[kind][j]
            row = () if own == _ALONE else rows.get((own, operands), ())
            while row:
                i = row.pop()
                if i not in self.taken:
                    self.taken.add(i)
                    return i
        return None


def _numbered(operands: Sequence[Any], known: Mapping[Any, int]) -> tuple[int, ...]:
    """The numbers of operands."""
    return tuple([x if type(x) is int else known.get(x, _OPEN) for x in operands])


def following(b: Jaxpr, matched: Mapping[int, int]) -> list[JaxprEqn]:
    """Return the equations of b in the order of the equations of a that they match, as far as dataflow and effects allow.

    Args:
      b: the jaxpr. An equation without a match stays after the one that it stands after.
      matched: indices in a by those in b.
    """
    ranks: list[int] = []
    for j in range(len(b.eqns)):
        ranks.append(matched.get(j, ranks[-1] if ranks else -1))
    order = _scheduled(b, ranks.__getitem__, lambda _: None)
    return [b.eqns[j] for j in order]
