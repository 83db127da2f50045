"""The difference of two programs: which of their lines correspond, and which of those are equal.

Corresponding equations are found first (`correspondence`), and their variables count as the same,
so that a line differs only where the programs do. Each equation has one line, and the jaxprs in its
params stand below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from jaxprtool.analyses.diffing.correspondence import binder_pairs, comes_later, correspond
from jaxprtool.analyses.diffing.equation_order import following, matches
from jaxprtool.analyses.diffing.ignored import NOTHING_IGNORED, Ignored
from jaxprtool.analyses.diffing.keys import Keys
from jaxprtool.analyses.diffing.rows import Names, Part, Row
from jaxprtool.analyses.diffing.values import Near, constants_apart
from jaxprtool.analyses.identity.canonical import canonical_const
from jaxprtool.analyses.places import Step
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Change", "Counted", "changes_of", "diff_programs"]

Pair = tuple[int, int]
Path = tuple[Step, ...]
Inner = tuple[ClosedJaxpr, Step]  # a jaxpr in a param, and where it is


class Counted(NamedTuple):
    """What counts as a difference.

    Attributes:
      ignored: what is ignored.
      near: the tolerance for values of literals and constants; None where all digits count.
    """

    ignored: Ignored = NOTHING_IGNORED
    near: Near | None = None


class Change(NamedTuple):
    """Equations that correspond and differ, or one equation of one side (the other is None).

    Attributes:
      a, b: the equations.
      moved: whether they stand in another order.
      same: whether moved equations are equal.
      path_a, path_b: the equations around them, the outermost first.
    """

    a: JaxprEqn | None
    b: JaxprEqn | None
    moved: bool = False
    same: bool = False
    path_a: Path = ()
    path_b: Path = ()

    @property
    def kind(self) -> str:
        """`added`, `removed`, `changed` or `moved`."""
        if self.a is None or self.b is None:
            return "added" if self.a is None else "removed"
        return "moved" if self.moved and self.same else "changed"


@deep
def diff_programs(
    a: dict[str, ClosedJaxpr],
    b: dict[str, ClosedJaxpr],
    counted: Counted | None = None,
    keys: Keys | None = None,
) -> list[Row]:
    """Return the lines of both files; all are the same when the files are equal.

    Args:
      a, b: the programs of two files, by name. If each has a single program, these are compared
        whatever their names.
      counted: what counts as a difference; None for everything but names, layout, and weak types of
        other variables than arguments.
      keys: signatures for what is ignored, with what is known already of the programs; None to make
        them.
    """
    counted = counted or Counted()
    keys = keys or Keys(counted.ignored)
    if len(a) == len(b) == 1:
        return _Diff(counted, keys).programs(next(iter(a.values())), next(iter(b.values())))
    rows: list[Row] = []
    for name in dict.fromkeys([*a, *b]):
        diff = _Diff(counted, keys)
        body = diff.programs(a.get(name), b.get(name))
        parts = [
            None if p is None else Part("name", p, Names(p), 0, text=f"{name} =")
            for p in (a.get(name), b.get(name))
        ]
        rows += [Row(*parts, same=None not in parts), *body]
    return rows


def changes_of(rows: Sequence[Row]) -> list[Change]:
    """Return the equations that differ; one that has moved comes once, where it stands in b."""
    found: list[Change] = []
    for row in rows:
        a, b = row.a, row.b
        if row.same or "equation" not in (a and a.what, b and b.what):
            continue
        if row.moved is not None:
            if b is None:
                continue
            a = row.moved
        found.append(
            Change(
                a and a.eqn,
                b and b.eqn,
                row.moved is not None,
                row.still,
                a.path if a else (),
                b.path if b else (),
            )
        )
    return found


class _Level(NamedTuple):
    """A jaxpr of each side, or of one, and how their variables correspond.

    Attributes:
      a, b: the jaxprs; None where a side has none.
      names: the names of variables, for each side.
      numbers: the numbers of variables, for each side: those that correspond have one number.
      numbered: the variables of a by their numbers.
      depth: the depth of nesting, in indents.
      paths: the equations around, for each side.
    """

    a: ClosedJaxpr | None
    b: ClosedJaxpr | None
    names: tuple[Names, Names]
    numbers: tuple[dict[Any, int], dict[Any, int]]
    numbered: dict[int, Any]
    depth: int
    paths: tuple[Path, Path]

    @property
    def programs(self) -> tuple[ClosedJaxpr | None, ClosedJaxpr | None]:
        """Both jaxprs."""
        return self.a, self.b

    def part(self, side: int, what: Any, eqn: JaxprEqn | None = None, **more: Any) -> Part:
        """Return a line of one of the jaxprs."""
        program = self.programs[side]
        assert program is not None  # callers only ask for lines of a jaxpr that exists
        path = self.paths[side]
        return Part(what, program, self.names[side], self.depth, eqn, path, **more)


class _Diff:
    """One comparison: the numbers of variables handed out so far, and the nested jaxprs that were compared already."""

    def __init__(self, counted: Counted, keys: Keys) -> None:
        self.ignored, self.near = counted
        self.signatures = keys
        self.count = 0
        self.compared: dict[tuple[Any, Any], str] = {}

    def programs(self, a: ClosedJaxpr | None, b: ClosedJaxpr | None) -> list[Row]:
        """Return the lines of two programs; None stands for a program that is missing."""
        names = tuple([Names(p) if p is not None else Names(a or b) for p in (a, b)])  # type: ignore[arg-type]
        return self.level(a, b, names, 0, ((), ()))  # type: ignore[arg-type]

    def level(
        self,
        a: ClosedJaxpr | None,
        b: ClosedJaxpr | None,
        names: tuple[Names, Names],
        depth: int,
        paths: tuple[Path, Path],
    ) -> list[Row]:
        """Return the lines of two jaxprs, with those of nested ones."""
        binders: list[Pair] = []
        pairs: list[Pair] = []
        moved: list[Pair] = []
        if a is not None and b is not None:
            type_of = self.signatures.type_of
            binders = binder_pairs(a.jaxpr, b.jaxpr, len(a.consts), len(b.consts), type_of)
            if self.ignored.order and a is not b:
                a, b = self._ordered(a, b, binders)
            same = None if self.near is None else self.near.literals
            pairs, moved = correspond(a.jaxpr, b.jaxpr, binders, self.signatures, same)
        level = _Level(a, b, names, ({}, {}), {}, depth, paths)
        self._number(level, binders, sorted([*pairs, *moved]))
        rows = [self._head(level), *self._constants(level)]
        there, back = dict(moved), {j: i for i, j in moved}
        eqns_a, eqns_b = (() if p is None else p.eqns for p in (a, b))
        for i, j in _steps(pairs, len(eqns_a), len(eqns_b)):
            to = there.get(i) if i is not None and j is None else None
            since = back.get(j) if j is not None and i is None else None
            at_a = None if i is None else eqns_a[i]
            at_b = None if j is None else eqns_b[j]
            if to is not None:
                rows.append(self._moved(level, at_a, eqns_b[to], 0))
            elif since is not None:
                rows.append(self._moved(level, eqns_a[since], at_b, 1))
                rows += self._inside(level, eqns_a[since], at_b)
            else:
                rows.append(self._pair(level, at_a, at_b))
                rows += self._inside(level, at_a, at_b)
        return [*rows, self._results(level)]

    def _ordered(
        self, a: ClosedJaxpr, b: ClosedJaxpr, binders: list[Pair]
    ) -> tuple[ClosedJaxpr, ClosedJaxpr]:
        """Return both jaxprs, one with its equations in the order of the other as far as they can be exchanged."""
        turned = comes_later(a.jaxpr, b.jaxpr, self.signatures)
        first, second = (b, a) if turned else (a, b)
        if turned:
            binders = [(j, i) for i, j in binders]
        found = matches(first.jaxpr, second.jaxpr, binders, self.signatures)
        eqns = following(second.jaxpr, found)
        second = second.replace(jaxpr=second.jaxpr.replace(eqns=eqns))
        return (second, first) if turned else (first, second)

    def _number(self, level: _Level, binders: list[Pair], pairs: list[Pair]) -> None:
        """Give a number to each variable, the same one to those that correspond."""
        eqns: list[Sequence[JaxprEqn]] = [() if p is None else p.eqns for p in level.programs]
        vs: list[Sequence[Any]] = [() if p is None else p.jaxpr.all_binders for p in level.programs]
        bound = [([vs[0][i]], [vs[1][j]]) for i, j in binders]
        bound += [(eqns[0][i].out_binders, eqns[1][j].out_binders) for i, j in pairs]
        for these in bound:
            for group in zip_longest(*these):
                self.count += 1
                for v, numbers in zip(group, level.numbers, strict=True):
                    if v is not None:
                        numbers[v] = self.count
        for side, numbers in enumerate(level.numbers):
            alone = [v for e in eqns[side] for v in e.out_binders if v not in numbers]
            for v in (*(v for v in vs[side] if v not in numbers), *alone):
                self.count += 1
                numbers[v] = self.count
        level.numbered.update({n: v for v, n in level.numbers[0].items()})

    # ---- lines

    def _rows(self, level: _Level, what: Any, keys: list[Any], **more: Any) -> Row:
        parts = [
            None if p is None else level.part(s, what, **more) for s, p in enumerate(level.programs)
        ]
        return self._row(level, *parts, same=keys[0] == keys[1])

    def _row(self, level: _Level, a: Part | None, b: Part | None, *, same: bool) -> Row:
        if same or a is None or b is None:
            return Row(a, b, same and a is not None and b is not None)
        if not a.may_read_as(b):
            return Row(a, b)
        a, b = a.written, b.written
        return Row(a, b, partners=self._partners(level, a, b) if a.text == b.text else "")

    def _partners(self, level: _Level, a: Part, b: Part) -> str:
        """Say what the variables of a line of b are in a, or which are weakly typed, where it reads as the line of a does."""
        said = [a.weakly(b)]
        for x, y in zip(a.read(), b.read(), strict=False):
            if type(y) is Lit or level.numbers[0].get(x) == level.numbers[1].get(y):
                continue
            v = level.numbered.get(level.numbers[1].get(y, -1))
            said.append(f"{b.names(y)} is {'not' if v is None else a.names(v)} in A")
        return ", ".join(filter(None, dict.fromkeys(said)))

    def _head(self, level: _Level) -> Row:
        keys: list[Any] = []
        weak_of: tuple[Any, Any] = None, None
        if level.a is not None and level.b is not None and not level.depth:
            weak_of = self.ignored.weak_arguments(level.a, level.b)
        for program, numbers, weak in zip(level.programs, level.numbers, weak_of, strict=True):
            if program is None:
                keys.append(None)
                continue
            binders = program.jaxpr.all_binders
            types = [*map(self.signatures.type_of, binders)]
            keys.append(
                (len(program.jaxpr.const_binders), [numbers[v] for v in binders], types, weak)
            )
        return self._rows(level, "head", keys)

    def _constants(self, level: _Level) -> Iterator[Row]:
        """Yield lines for the values of constants that are known; corresponding constants share a line."""
        at: list[dict[int, tuple[int, Any, Any, str]]] = [{}, {}]
        for side, program in enumerate(level.programs):
            if program is None or (self.ignored.consts and None not in level.programs):
                continue
            for i, v in enumerate(program.jaxpr.const_binders[: len(program.consts)]):
                value = program.consts[i]
                text = canonical_const(value, v.aval)
                if text:
                    at[side][level.numbers[side][v]] = i, value, v.aval, text
        for n in dict.fromkeys([*at[0], *at[1]]):
            x, y = (at[side].get(n) for side in (0, 1))
            a = x and level.part(0, "constant", binder=x[0])
            b = y and level.part(1, "constant", binder=y[0])
            if x is None or y is None:
                yield Row(a, b)
                continue
            same, apart = x[3] == y[3], None
            if not same:
                apart = constants_apart(x[1], y[1], x[2], self.near)
                same = self.near is not None and apart is not None and not apart.different
            yield Row(a, b, same, apart=None if same else apart)

    def _results(self, level: _Level) -> Row:
        sides = [
            None if p is None else self._atoms(p.jaxpr.outs, level.numbers[s])
            for s, p in enumerate(level.programs)
        ]
        keys: list[Any] = [x and [k for k, _ in x] for x in sides]
        if keys[0] != keys[1] and None not in keys:
            keys = [0, 0] if self._same_atoms(*sides) else keys  # type: ignore[arg-type]
        return self._rows(level, "results", keys)

    def _pair(self, level: _Level, a: JaxprEqn | None, b: JaxprEqn | None) -> Row:
        parts = [
            None if e is None else level.part(side, "equation", e) for side, e in enumerate((a, b))
        ]
        return self._row(level, *parts, same=self._same(level, a, b))

    def _moved(self, level: _Level, a: JaxprEqn | None, b: JaxprEqn | None, side: int) -> Row:
        parts: list[Any] = [level.part(s, "equation", e) for s, e in enumerate((a, b))]
        still = self._same(level, a, b)
        other = parts[1 - side]
        parts[1 - side] = None
        return Row(*parts, moved=other, still=still)

    def _same(self, level: _Level, a: JaxprEqn | None, b: JaxprEqn | None) -> bool:
        """Whether two equations are equal, apart from the jaxprs in their params."""
        if a is None or b is None:
            return False
        numbers = [self.signatures.shallow(e, nested=False) for e in (a, b)]
        if numbers[0] != numbers[1]:
            return False
        outs = [
            [n.get(v) for v in e.out_binders] for n, e in zip(level.numbers, (a, b), strict=True)
        ]
        atoms = [self._atoms(e.inputs, n) for e, n in zip((a, b), level.numbers, strict=True)]
        return outs[0] == outs[1] and self._same_atoms(*atoms)

    def _atoms(self, xs: Sequence[Any], numbers: dict[Any, int]) -> list[tuple[Any, Any]]:
        """Return operands or results with their keys."""
        lit = self.signatures.lit
        return [(lit(x) if type(x) is Lit else numbers.get(x, -1), x) for x in xs]

    def _same_atoms(self, xs: list[tuple[Any, Any]], ys: list[tuple[Any, Any]]) -> bool:
        if len(xs) != len(ys):
            return False
        for (p, x), (q, y) in zip(xs, ys, strict=True):
            if p == q:
                continue
            near = self.near is not None and type(x) is Lit and type(y) is Lit
            if not near or self.signatures.type_of(x) != self.signatures.type_of(y):
                return False
            if not self.near.literals(x, y):  # type: ignore[union-attr]
                return False
        return True

    # ---- nested jaxprs

    def _inside(self, level: _Level, a: JaxprEqn | None, b: JaxprEqn | None) -> Iterator[Row]:
        """Yield the lines of the jaxprs in the params of an equation of each side."""
        for x, y in zip_longest(self._jaxprs(a), self._jaxprs(b)):
            pair = [None if z is None else z[0] for z in (x, y)]
            paths = [
                path if z is None else (*path, z[1])
                for path, z in zip(level.paths, (x, y), strict=True)
            ]
            label = str((x or y)[1])  # type: ignore[index]
            first = self.compared.setdefault(self._known(*pair), label)
            if first is label:
                yield from self.level(*pair, level.names, level.depth + 2, tuple(paths))  # type: ignore[arg-type]
            else:
                yield self._elsewhere(level, (a, b), pair, first)

    def _known(self, a: ClosedJaxpr | None, b: ClosedJaxpr | None) -> tuple[Any, Any]:
        """Return the key of a comparison, which is shown once; that of jaxprs that differ is one also for equal copies of them."""
        if a is not None and b is not None:
            x, y = self.signatures.of(a), self.signatures.of(b)
            if x != y:
                return ("differ", x), y
        return a, b

    def _elsewhere(self, level: _Level, eqns: Any, pair: list[Any], first: str) -> Row:
        """Return the line for jaxprs that were compared before."""
        text = f"{{ as in {first} }}"
        parts = [
            None
            if p is None
            else Part("elsewhere", p, level.names[s], level.depth + 2, eqns[s], text=text)
            for s, p in enumerate(pair)
        ]
        return Row(*parts, same=None not in parts)

    def _jaxprs(self, eqn: JaxprEqn | None) -> list[Inner]:
        """Return the jaxprs in the params of an equation that count, in the order of the params' names."""
        if eqn is None or not eqn.primitive.holds_jaxprs:
            return []
        found: list[Inner] = []
        for key in sorted(self.ignored.equation(eqn).params):
            inner = [*jaxprs_in(eqn.params[key])]
            branches = range(len(inner)) if len(inner) > 1 else [None]
            found += [(p, Step(eqn, key, k)) for p, k in zip(inner, branches, strict=False)]
        return found


def _steps(pairs: Sequence[Pair], n: int, m: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield all positions of two sequences in order: pairs, and those of one side only."""
    i = j = 0
    for p, q in [*pairs, (n, m)]:
        yield from ((k, None) for k in range(i, p))
        yield from ((None, k) for k in range(j, q))
        if (p, q) != (n, m):
            yield p, q
        i, j = p + 1, q + 1
