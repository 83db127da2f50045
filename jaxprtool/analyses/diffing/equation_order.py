"""Orders of equations in which neither dataflow nor effects change: a canonical one, and one that follows another jaxpr.

Equations that have effects, or see those of others, keep their order. All others may stand anywhere behind what they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from jaxprtool.analyses.memory.schedules import is_ordered
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Value

__all__ = ["Numbers", "canonical_order", "following", "matches"]


class Numbers(Protocol):
    """What numbers keys, equations and literals: `diff_keys.Keys`.

    Attributes:
      labels: those of the equations of jaxprs whose binders correspond by their positions, as far as they are known.
    """

    labels: dict[Jaxpr, list[Any]]

    def number(self, key: Value) -> Any: ...
    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> Any: ...
    def lit(self, x: Lit) -> Value: ...


def canonical_order(jaxpr: Jaxpr, numbers: Numbers) -> list[JaxprEqn]:
    """The equations in an order that does not depend on the one in which they stand.

    Of the equations that can be next, the one of the smallest label is taken, then the one whose operands were made
    first. Labels say what an equation computes and what is made of it, so that equations of one label can stand for
    each other.
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
    """Keys of binders by their positions."""
    return {v: ("in", i) for i, v in enumerate(jaxpr.all_binders)}


def _labels(jaxpr: Jaxpr, ins: Mapping[Any, Any], numbers: Numbers) -> list[Any]:
    """A label for each equation: of what it computes, then of who reads it, then of both together."""
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
    """A number for each equation, of its own key and those of its operands' equations."""
    known: dict[Any, Any] = dict(ins)
    found: list[Any] = []
    for eqn, key in zip(jaxpr.eqns, own, strict=True):
        operands = [known.get(x) if type(x) is not Lit else numbers.lit(x) for x in eqn.inputs]
        found.append(numbers.number(("computes", key, tuple(operands))))
        for k, v in enumerate(eqn.out_binders):
            known[v] = found[-1], k
    return found


def _scheduled(jaxpr: Jaxpr, key: Any, taken: Any) -> list[int]:
    """Positions of the equations: of those that can be next, the one of the least key."""
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
    """For each equation how many others come before it, and which come behind it."""
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

_LEVELS = 4  # of likeness: the same, but for literals, but for params, but for the operation


def matches(
    a: Jaxpr, b: Jaxpr, binders: Sequence[tuple[int, int]], numbers: Numbers
) -> dict[int, int]:
    """Which equation of b does what which of a does, wherever they stand: positions in a by those in b.

    Equations that do the same are found first, then those that do nearly the same of the same variables.

    Args:
      a, b: the jaxprs.
      binders: which of their binders correspond.
      numbers: for keys.
    """
    ins_a = {a.all_binders[i]: ("in", n) for n, (i, _) in enumerate(binders)}
    ins_b = {b.all_binders[j]: ("in", n) for n, (_, j) in enumerate(binders)}
    literals: dict[Any, int] = {}
    of_a = _Side(a, _labels(a, ins_a, numbers), numbers, literals)
    of_b = _Side(b, _labels(b, ins_b, numbers), numbers, literals)
    table = _Table(of_a, of_b, binders)
    for level in range(_LEVELS):
        if len(table.found) < min(len(a.eqns), len(b.eqns)):
            table.match(level)
    return table.found


_OPEN = -1  # the number of an operand that may be any


class _Side:
    """What the equations of a jaxpr do, and what they read.

    Attributes:
      own: for each kind of key, from the most telling on, what it says of each equation without its operands.
      operands: of each equation: its variables, and numbers below `_OPEN` for its literals.
    """

    def __init__(
        self, jaxpr: Jaxpr, labels: Sequence[Any], numbers: Numbers, literals: dict[Any, int]
    ):
        self.jaxpr = jaxpr
        eqns = jaxpr.eqns
        full, bare = ([numbers.shallow(e, nested=x) for e in eqns] for x in (True, False))
        types = [tuple([v.aval.strong for v in e.out_binders]) for e in eqns]
        names = [e.primitive.name for e in eqns]
        self.own: list[Sequence[Any]] = [
            [*zip(full, labels, strict=True)],
            full,
            bare,
            [*zip(names, types, strict=True)],
            types,
        ]

        def literal(x: Lit) -> int:
            return literals.setdefault(numbers.lit(x), _OPEN - 1 - len(literals))

        self.operands = [[literal(x) if type(x) is Lit else x for x in e.inputs] for e in eqns]

    def key(self, kind: int, i: int, operands: tuple[int, ...]) -> tuple[Any, ...]:
        """A key of an equation, of its operands' numbers: where it says what the equation computes, literals count."""
        if kind >= _EXACT_KINDS:
            operands = tuple([max(x, _OPEN) for x in operands])
        return self.own[kind][i], operands


_EXACT_KINDS = 2  # the first kinds of keys, which say what an equation computes


class _Table:
    """The equations of a jaxpr by what they do, each of which is taken once by one of another jaxpr.

    Attributes:
      found: positions in a by those in b.
    """

    def __init__(self, a: _Side, b: _Side, binders: Sequence[tuple[int, int]]):
        self.a, self.b = a, b
        self.found: dict[int, int] = {}
        self.taken: set[int] = set()
        eqns = (*a.jaxpr.eqns, *b.jaxpr.eqns)
        self.width = max((len(e.out_binders) for e in eqns), default=0)
        first = len(eqns) * self.width  # results have the numbers below
        known: dict[Any, int] = {
            a.jaxpr.all_binders[i]: first + n for n, (i, _) in enumerate(binders)
        }
        self.ins = {b.jaxpr.all_binders[j]: first + n for n, (_, j) in enumerate(binders)}
        self.operands: list[tuple[int, ...]] = []
        for i, eqn in enumerate(a.jaxpr.eqns):
            self.operands.append(_numbered(a.operands[i], known))
            known.update(zip(eqn.out_binders, self._results(i), strict=False))
        self.rows: list[dict[Any, list[int]]] = []  # by kinds of keys; the last one is taken first

    def _results(self, i: int) -> range:
        """Numbers for the results of an equation."""
        return range(i * self.width, (i + 1) * self.width)

    def match(self, level: int) -> None:
        """Find equations of a for those of b that have none, where operands that correspond count as the same."""
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
        """The equations of a that are not taken, by their keys of a kind."""
        rows: dict[Any, list[int]] = {}
        for i in range(len(self.operands) - 1, -1, -1):
            if i not in self.taken:
                rows.setdefault(self.a.key(kind, i, self.operands[i]), []).append(i)
        return rows

    def _take(self, j: int, operands: tuple[int, ...]) -> int | None:
        """The equation of a that has the first of the keys that one has; None where there is none left."""
        for kind, rows in enumerate(self.rows):
            row = rows.get(self.b.key(kind, j, operands), ())
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
    """The equations of b in the order of those of a that they correspond to, as far as they can be so.

    Args:
      b: the jaxpr. An equation of it alone stays behind the one that it stands behind.
      matched: positions in a by those in b.
    """
    ranks: list[int] = []
    for j in range(len(b.eqns)):
        ranks.append(matched.get(j, ranks[-1] if ranks else -1))
    order = _scheduled(b, ranks.__getitem__, lambda _: None)
    return [b.eqns[j] for j in order]
