"""Find which equations of two jaxprs correspond, and which of them have moved.

Where both have the same equations but for literals, they correspond one by one. Else those that
compute the same values from the same operands are paired first, by keys that depend on the
operands' own equations to some depth, and in the gaps between them the depth is reduced step by
step, down to the operation and the result types alone (`align`). Equations that are left over
between, and compute the same on both sides, have moved. The result does not depend on which jaxpr
is the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.diffing.align import Gap, Pair, align, fill
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.ir.jaxpr import Jaxpr, Lit, Value

__all__ = ["Correspondence", "align_equations", "binder_pairs", "comes_later", "correspond"]

_DEPTHS = (8, 2, 1)  # how far the keys between the deepest and the shallowest look
_FEW = 8  # jaxprs correspond one by one if at most one equation in so many differs
_BLOCK = 3  # equations, at least, of a moved block whose operands differ


class Correspondence(NamedTuple):
    """Equations that correspond.

    Attributes:
      pairs: pairs of indices of those that stand in the same order on both sides, in that order.
      moved: pairs of indices of those that stand elsewhere, in the order of a.
    """

    pairs: list[Pair]
    moved: list[Pair]


def binder_pairs(a: Jaxpr, b: Jaxpr, consts_a: int, consts_b: int, type_of: Any) -> list[Pair]:
    """Return pairs of indices of binders that correspond: by type, and then a constant with a constant.

    Args:
      a, b: the jaxprs.
      consts_a, consts_b: how many of their binders, the first ones, are constants.
      type_of: returns the key by which types are compared.
    """
    const_a, const_b = (
        [i < n for i in range(len(jaxpr.all_binders))]
        for jaxpr, n in ((a, consts_a), (b, consts_b))
    )
    typed_a, typed_b = (
        [(type_of(v), const) for v, const in zip(jaxpr.all_binders, flags, strict=True)]
        for jaxpr, flags in ((a, const_a), (b, const_b))
    )
    if (len(typed_b), typed_b) < (len(typed_a), typed_a):
        turned = align([(typed_b, typed_a), (const_b, const_a)], len(const_b), len(const_a))
        return [(i, j) for j, i in turned]
    return align([(typed_a, typed_b), (const_a, const_b)], len(const_a), len(const_b))


def align_equations(
    a: Jaxpr, b: Jaxpr, binders: Sequence[Pair], signatures: Signatures
) -> list[Pair]:
    """Return pairs of indices of corresponding equations, in order.

    Args:
      a, b: the jaxprs.
      binders: which of their binders correspond.
      signatures: hands out numbers for keys.
    """
    return _correspond(a, b, binders, signatures, moves=False).pairs


def correspond(
    a: Jaxpr,
    b: Jaxpr,
    binders: Sequence[Pair],
    signatures: Signatures,
    same: Callable[[Lit, Lit], bool] | None = None,
) -> Correspondence:
    """As `align_equations`, and find the equations that have moved.

    Args:
      a, b, binders, signatures: as there.
      same: whether two literals of one type are equal within a tolerance; None: all digits count.
    """
    if _alike(a, b, binders, signatures, same):
        return Correspondence([(i, i) for i in range(len(a.eqns))], [])
    return _correspond(a, b, binders, signatures, moves=True)


def _alike(
    a: Jaxpr,
    b: Jaxpr,
    binders: Sequence[Pair],
    signatures: Signatures,
    same: Callable[[Lit, Lit], bool] | None,
) -> bool:
    """Whether all equations have the same types and variables one by one, and nearly all are the same.

    Where literals have a tolerance, nested jaxprs are not compared.
    """
    if len(a.eqns) != len(b.eqns):
        return False
    names = {a.all_binders[i]: b.all_binders[j] for i, j in binders}
    others, type_of = 0, signatures.type_of
    for p, q in zip(a.eqns, b.eqns, strict=True):
        if [*map(type_of, p.out_binders)] != [*map(type_of, q.out_binders)]:
            return False
        if len(p.inputs) != len(q.inputs):
            return False
        nested = same is None and p.primitive.holds_jaxprs
        other = signatures.shallow(p, nested=nested) != signatures.shallow(q, nested=nested)
        for x, y in zip(p.inputs, q.inputs, strict=True):
            if not isinstance(x, Lit):
                if names.get(x) is not y:
                    return False
            elif not isinstance(y, Lit):
                return False
            elif signatures.lit(x) != signatures.lit(y):
                other |= same is None or not same(x, y)
        others += other
        if others > 1 + len(a.eqns) // _FEW:
            return False
        names.update(zip(p.out_binders, q.out_binders, strict=True))
    return True


def _correspond(
    a: Jaxpr, b: Jaxpr, binders: Sequence[Pair], signatures: Signatures, *, moves: bool
) -> Correspondence:
    if comes_later(a, b, signatures):
        turned = [(j, i) for i, j in binders]
        pairs, moved = _aligned(b, a, turned, signatures, moves=moves)
        return Correspondence(*(sorted((i, j) for j, i in ps) for ps in (pairs, moved)))
    return _aligned(a, b, binders, signatures, moves=moves)


def comes_later(a: Jaxpr, b: Jaxpr, signatures: Signatures) -> bool:
    """Whether a comes after b in a fixed order of jaxprs, by which (a, b) and (b, a) are treated alike."""
    if len(a.eqns) != len(b.eqns):
        return len(a.eqns) > len(b.eqns)
    for p, q in zip(a.eqns, b.eqns, strict=True):
        x, y = (signatures.shallow(e, nested=False) for e in (p, q))
        if x != y:
            return signatures.texts(p) > signatures.texts(q)
    both = zip(_operands(a, signatures), _operands(b, signatures), strict=True)
    return next((p > q for p, q in both if p != q), False)


def _operands(jaxpr: Jaxpr, signatures: Signatures) -> Iterator[list[str]]:
    """Yield the types of the binders, and for each equation the sources of its operands, or the literals themselves."""
    source: dict[Any, str] = {v: f"{i}" for i, v in enumerate(jaxpr.all_binders)}
    yield [*map(signatures.type_of, jaxpr.all_binders)]
    for n, eqn in enumerate(jaxpr.eqns):
        yield [
            source.get(x, "") if type(x) is not Lit else str(signatures.lit(x)) for x in eqn.inputs
        ]
        source.update({v: f"{n}.{k}" for k, v in enumerate(eqn.out_binders)})


def _aligned(
    a: Jaxpr, b: Jaxpr, binders: Sequence[Pair], signatures: Signatures, *, moves: bool
) -> Correspondence:
    keys = (
        _Keys(a, {i: n for n, (i, _) in enumerate(binders)}, signatures, 0),
        _Keys(b, {j: n for n, (_, j) in enumerate(binders)}, signatures, 1),
    )
    first = [_level(keys, "values"), *(_level(keys, "near", d) for d in _DEPTHS)]
    rest = [_level(keys, what) for what in ("full", "shallow", "names", "types")]
    pairs: list[Pair] = []
    gaps = [(0, len(a.eqns), 0, len(b.eqns))]
    if not moves:
        fill([*first, *rest], gaps, pairs, exact=len(first))
        return Correspondence(sorted(pairs), [])
    gaps = fill(first[:1], gaps, pairs)
    moves_of = _Moves(keys, pairs)
    moves_of.find_same()
    gaps = fill(moves_of.without(first[1:]), moves_of.cut(gaps), pairs, exact=len(first))
    moves_of.find_blocks(pairs)
    fill(moves_of.without(rest), moves_of.cut(gaps), pairs)
    return Correspondence(sorted(pairs), sorted(moves_of.found.items()))


class _Keys:
    """The keys of the equations of a jaxpr.

    Attributes:
      jaxpr: the jaxpr.
      signatures: hands out numbers.
      source: for each variable that an equation binds, the index of the equation and the position
        of the result.
      values: the keys of the most detail, which identify what is computed.
      full: the keys of the operation with its nested jaxprs, whatever the operands are.
    """

    def __init__(self, jaxpr: Jaxpr, binders: dict[int, int], signatures: Signatures, side: int):
        self.jaxpr, self.signatures = jaxpr, signatures
        number = signatures.number
        self.source: dict[Any, tuple[int, int]] = {}
        deep: dict[Any, Any] = {}
        for i, v in enumerate(jaxpr.all_binders):
            deep[v] = ("in", binders[i]) if i in binders else ("only", side, i)
        self.values: list[Any] = []
        self.full = [signatures.shallow(eqn, nested=True) for eqn in jaxpr.eqns]
        for n, eqn in enumerate(jaxpr.eqns):
            ins = [deep.get(x) if type(x) is not Lit else signatures.lit(x) for x in eqn.inputs]
            self.values.append(number(("value", self.full[n], tuple(ins))))
            for k, v in enumerate(eqn.out_binders):
                deep[v] = (self.values[n], k)
                self.source[v] = (n, k)
        self._near: list[list[Any]] = [self.full]
        self._outside: list[Any] = []  # keys of operands that no equation computes
        self._operands: list[list[int]] = []  # the numbers of each equation's operands, see `_read`

    def near(self, depth: int) -> list[Any]:
        """Return keys that depend on the equations of the operands, to a depth."""
        if not self._operands:
            self._read()
        while len(self._near) <= depth:
            d, keys = len(self._near) - 1, self._near[-1]
            of = [(keys[n], k) if k else keys[n] for n, k in self.source.values()]
            of += self._outside
            rows = zip(self.full, self._operands, strict=True)
            self._near.append(
                self.signatures.numbers(
                    ("near", d, n, tuple([of[p] for p in operands])) for n, operands in rows
                )
            )
        return self._near[depth]

    def _read(self) -> None:
        """Number the operands: first the results of all equations, then types and literals."""
        place: dict[Any, int] = {v: p for p, v in enumerate(self.source)}
        outside: dict[Any, int] = {}

        def number(x: Value) -> int:
            if type(x) is not Lit and x in place:
                return place[x]
            key = self.signatures.lit(x) if type(x) is Lit else self.signatures.type_of(x)
            return outside.setdefault(key, len(place) + len(outside))

        self._operands = [[number(x) for x in e.inputs] for e in self.jaxpr.eqns]
        self._outside = [*outside]

    @property
    def shallow(self) -> list[Any]:
        """The keys of the operation without nested jaxprs."""
        return [self.signatures.shallow(e, nested=False) for e in self.jaxpr.eqns]

    @property
    def names(self) -> list[str]:
        """The names of the primitives."""
        return [e.primitive.name for e in self.jaxpr.eqns]

    @property
    def types(self) -> list[Any]:
        """The types of the results."""
        type_of = self.signatures.type_of
        return [tuple([type_of(v) for v in e.out_binders]) for e in self.jaxpr.eqns]


def _level(keys: tuple[_Keys, _Keys], what: str, *args: int) -> Callable[[], Any]:
    """Return a function that computes the keys of both sides when they are needed."""

    def found() -> Any:
        both = [getattr(k, what) for k in keys]
        return [k(*args) for k in both] if args else both

    return found


class _Moves:
    """The equations that have moved.

    Attributes:
      keys: the keys of both sides.
      found: the index in b of each equation of a that has moved.
      free: for each side, the indices of the equations that are in no pair and, as far as is known,
        have not moved.
    """

    def __init__(self, keys: tuple[_Keys, _Keys], pairs: Sequence[Pair]):
        self.keys = keys
        self.found: dict[int, int] = {}
        self.free = tuple({*range(len(k.full))} for k in keys)
        self._take(pairs)

    def _take(self, pairs: Sequence[Pair]) -> None:
        for side, free in enumerate(self.free):
            free.difference_update([pair[side] for pair in pairs])

    def find_same(self) -> None:
        """Find those that compute the same from the same operands."""
        a, b = (_positions(k.values, free) for k, free in zip(self.keys, self.free, strict=True))
        pairs = [
            pair for key, where in a.items() for pair in zip(where, b.get(key, ()), strict=False)
        ]
        self.found.update(pairs)
        self._take(pairs)

    def find_blocks(self, pairs: Sequence[Pair]) -> None:
        """Find moved blocks whose equations are the same but for operands from outside; one pair is found by its surroundings."""
        self._take(pairs)
        if not all(self.free):
            return
        near = [k.near(max(_DEPTHS)) for k in self.keys]
        a, b = (_positions(keys, free) for keys, free in zip(near, self.free, strict=True))
        for key, where in a.items():
            others = b.get(key, [])
            if len(where) != len(others):
                continue
            for i, j in zip(where, others, strict=True):
                block = self._block(i, j)
                if len(block) >= _BLOCK:
                    self.found.update(block)
                    self._take(block)

    def _block(self, i: int, j: int) -> list[Pair]:
        """Return the pairs around a pair with the same operations; none where the pair itself is not free."""
        (free_a, free_b), (a, b) = self.free, self.keys
        block = [(i, j)] if i in free_a and j in free_b else []
        for step in (-1, 1) if block else ():
            p, q = i + step, j + step
            while p in free_a and q in free_b and a.full[p] == b.full[q]:
                block.append((p, q))
                p, q = p + step, q + step
        return block

    def cut(self, gaps: Sequence[Gap]) -> list[Gap]:
        """Return the gaps in which both sides have equations that have not moved."""
        free_a, free_b = self.free
        return [
            (i0, i1, j0, j1)
            for i0, i1, j0, j1 in gaps
            if any(i in free_a for i in range(i0, i1)) and any(j in free_b for j in range(j0, j1))
        ]

    def without(self, levels: Sequence[Callable[[], Any]]) -> list[Callable[[], Any]]:
        """Return levels at which the equations that have moved match nothing."""
        if not self.found:
            return [*levels]
        gone = self.found.keys(), {*self.found.values()}

        def of(level: Callable[[], Any]) -> Any:
            return [
                [("gone", side, i) if i in gone[side] else k for i, k in enumerate(keys)]
                for side, keys in enumerate(level())
            ]

        return [lambda level=level: of(level) for level in levels]


def _positions(keys: Sequence[Any], where: set[int]) -> dict[Any, list[int]]:
    """Return the indices in `where` by their keys, in order."""
    found: dict[Any, list[int]] = {}
    for i in sorted(where):
        found.setdefault(keys[i], []).append(i)
    return found
