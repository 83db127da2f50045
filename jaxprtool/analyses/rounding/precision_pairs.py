"""Jaxprs beside those that compute the same in a wider precision: which equations correspond, and what is measured in them.

A `Pair` is a jaxpr and its wider one; its columns are the results that have errors. A `Block` is
what is measured at once: consecutive equations of a pair, compiled so that they can be computed
again in the wider precision.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.logs import Log, layout_of
from jaxprtool.analyses.rounding.shadow import Shadow, is_rounded
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.observe import written_as
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Block", "Functions", "Group", "Pair", "pairing"]

# The operation of an equation as a function of values in the wider precision.
Functions = Callable[[JaxprEqn], Callable[..., Any]]


class Pair:
    """A jaxpr and its wider one.

    Attributes:
      own: the jaxpr.
      wide: the wider jaxpr; None where the wider run has none.
      functions: the operations of equations in the wider precision.
      positions: for each equation, the index of its counterpart in the wider jaxpr, or None.
      columns: the results of floating and complex types that have elements: the index of the
        equation and the position of the result.
      column_of: the column of each such variable.
      firsts: the first column of each equation that has some.
    """

    def __init__(
        self,
        own: Jaxpr,
        wide: Jaxpr | None,
        before: dict[JaxprEqn, JaxprEqn],
        functions: Functions,
    ):
        self.own, self.wide, self.functions = own, wide, functions
        self.positions = _positions(own, wide, before)
        self.columns = [
            (i, k)
            for i, eqn in enumerate(own.eqns)
            for k, v in enumerate(eqn.out_binders)
            if is_rounded(v.aval) and v.aval.size
        ]
        self.column_of: dict[Any, int] = {
            own.eqns[i].out_binders[k]: c for c, (i, k) in enumerate(self.columns)
        }
        at = [i for i, _ in self.columns]
        self.firsts = [n for n, i in enumerate(at) if not n or at[n - 1] != i]
        self._blocks: dict[tuple[int, int], Block] = {}

    def eqn(self, column: int) -> JaxprEqn:
        """Return the equation that a column is a result of."""
        return self.own.eqns[self.columns[column][0]]

    def counterpart(self, i: int) -> JaxprEqn | None:
        """Return the equation of the wider jaxpr that corresponds to equation i; None where there is none."""
        j = self.positions[i]
        return None if j is None or self.wide is None else self.wide.eqns[j]

    def where(self, x: Any) -> tuple[bool, int, int | None]:
        """Return where the value of a variable is in a log.

        That is: whether among the arguments or the results of equations, the index there, and the
        position among the results of an equation with several.
        """
        layout = layout_of(self.own)
        if x not in layout.made:
            return True, layout.args[x], None
        i, k = layout.made[x]
        return False, i, k if self.own.eqns[i].primitive.multiple_results else None

    def wide_variable(self, column: int) -> Any:
        """Return the variable of the wider jaxpr that corresponds to a column; None where there is none."""
        i, k = self.columns[column]
        made = self.counterpart(i)
        return None if made is None else made.out_binders[k]

    def block(self, start: int, end: int) -> Block:
        """Return the block of the equations from start to end."""
        found = self._blocks.get((start, end))
        if found is None:
            if len(self._blocks) > 64:
                self._blocks.clear()
            found = self._blocks[start, end] = Block(self, start, end)
        return found


def pairing(
    raised: Any, functions: Functions, *, kept: bool
) -> Callable[[Jaxpr, Log | None, Any], Pair]:
    """Return a function that gives the pair of a jaxpr that has run.

    Its arguments are the jaxpr; the log of the wider run that corresponds, or None; and where the
    jaxpr is, in case the wider run has no log: the pair around it, the index of the equation that
    holds it, and its own log.

    Args:
      raised: the wider program, with the equation that each of its equations was made from.
      functions: the operations of its equations.
      kept: whether pairs are kept as long as the jaxprs.
    """
    made: dict[Any, Pair] = {}

    def pair_of(own: Jaxpr, log: Log | None, around: Any) -> Pair:
        wide = None
        if log is not None:
            wide = log.jaxpr
        elif around is not None:
            wide = _held(*around)
        if kept:
            return _PAIRS.of(own, wide, lambda: Pair(own, wide, raised.before, functions))
        if (own, wide) not in made:
            made[own, wide] = Pair(own, wide, raised.before, functions)
        return made[own, wide]

    return pair_of


_PAIRS = MemoTable[Pair]("beside a wider jaxpr")


def _held(pair: Pair, i: int, log: Log) -> Jaxpr | None:
    """Return the jaxpr of the wider program that corresponds to one inside equation i; None where there is none."""
    made = pair.counterpart(i)
    if made is None or written_as(log.jaxpr) is not log.jaxpr:
        return None
    held = [closed.jaxpr for closed in jaxprs_in(made.params.get(log.param))]
    at = log.branch or 0
    return held[at] if at < len(held) else None


def _positions(
    own: Jaxpr, wide: Jaxpr | None, before: dict[JaxprEqn, JaxprEqn]
) -> list[int | None]:
    """Return the index of each equation's counterpart in the wider jaxpr, or None.

    What evaluation runs in the place of a jaxpr (shard_map: batched over the devices) has equations
    of its own, made from the written ones, in both runs alike: the n-th equation of a place in the
    text corresponds to the n-th one there.
    """
    found: list[int | None] = [None] * len(own.eqns)
    if wide is None:
        return found
    index = {eqn: i for i, eqn in enumerate(own.eqns)}
    for j, eqn in enumerate(wide.eqns):
        i = index.get(before.get(eqn, eqn))
        if i is not None:
            found[i] = j
    if any(j is not None for j in found):
        return found
    a, b = _by_place(own), _by_place(wide)
    for place, at in a.items():
        if len(at) == len(b.get(place, ())):
            for i, j in zip(at, b[place], strict=True):
                if own.eqns[i].primitive is wide.eqns[j].primitive:
                    found[i] = j
    return found


def _by_place(jaxpr: Jaxpr) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        if eqn.span is not None:
            found.setdefault(eqn.span.start, []).append(i)
    return found


class Group:
    """The columns of a block that have one type.

    Attributes:
      scalars: whether they are scalars.
      where: their indices in the block.
      pick: a function that picks them from the block's columns.
    """

    __slots__ = ("pick", "scalars", "where")

    def __init__(self, where: list[int], *, scalars: bool):
        self.where, self.scalars = where, scalars
        self.pick = _picker(where)


class Block:
    """Consecutive equations of a jaxpr, and what is measured in them.

    Attributes:
      pair: the jaxpr and its wider one.
      columns: the columns of the pair that these equations compute.
      groups: these columns by type.
      operands: for each column, the columns of its equation's operands: [columns, width], filled up
        with the number of all columns.
      needed: operands that are none of these columns, each with whether it is rounded.
      literals: the literals among the operands, as the wider jaxpr has them.
      code: for each equation that is computed again: the function, a function that picks its
        operands, whether it has several results, and which of its results are which columns of the
        block.
      measured: for each column, whether its equation is computed again.
      paired: for each column, whether the wider run has it.
      copies: columns whose elements are all those of another column of the block, and only those:
        pairs of the column and the other one, whose total error it has.
      whole: whether it has all columns of the pair.
      last: how many equations of the wider jaxpr have to have run for all of them.
    """

    def __init__(self, pair: Pair, start: int, end: int):
        self.pair, xp = pair, numpy_namespace()
        columns = [c for c, (i, _) in enumerate(pair.columns) if start <= i < end]
        self.columns: list[int] = columns
        self.whole = len(columns) == len(pair.columns)
        self.groups = _groups(pair, columns)
        self.operands = _operands(pair, columns)
        self.needed: list[tuple[Any, bool]] = []
        self._given: list[tuple[bool, int, int | None]] = []
        self.literals: list[Any] = []
        self.code: list[tuple[Any, Any, bool, list[tuple[int, int]]]] = []
        self.measured = xp.zeros(len(columns), bool)
        self._picks = [pair.columns[c] for c in columns]
        self._shadow = [pair.positions[i] for i, _ in self._picks]
        self.paired = xp.array([j is not None for j in self._shadow], bool)
        self.last = max([j + 1 for j in self._shadow if j is not None], default=0)
        several = any(pair.own.eqns[i].primitive.multiple_results for i, _ in self._picks)
        at = [i for i, _ in self._picks]
        self._quick = operator.itemgetter(*at) if len(at) > 1 and not several else None
        where = {c: k for k, c in enumerate(columns)}
        self.copies = self._copies(where)
        self._compile(where, start, end)

    def _copies(self, where: dict[int, int]) -> list[tuple[int, int]]:
        pair = self.pair
        found: dict[int, int] = {}
        for k, (i, position) in enumerate(self._picks):
            eqn, made = pair.own.eqns[i], pair.counterpart(i)
            if made is None or elements_facts[eqn.primitive] not in _ALL or not moves_only(eqn):
                continue
            n = position if len(eqn.out_binders) > 1 else 0
            column = pair.column_of.get(eqn.inputs[n])
            if column in where and made.inputs[n] is pair.wide_variable(column):
                source = where[column]
                found[k] = found.get(source, source)
        return [*found.items()]

    def _compile(self, where: dict[int, int], start: int, end: int) -> None:
        pair, slots = self.pair, dict[Any, int]()
        wanted: list[tuple[JaxprEqn, JaxprEqn, list[tuple[int, int]]]] = []
        for i in range(start, end):
            eqn, made = pair.own.eqns[i], pair.counterpart(i)
            outs = [
                (k, where[c])
                for k, v in enumerate(eqn.out_binders)
                if (c := pair.column_of.get(v)) is not None
            ]
            if made is None or not outs or not _is_done_again(made):
                continue
            if moves_only(eqn):
                self.measured[[c for _, c in outs]] = True
                continue
            wanted.append((eqn, made, outs))
            for x in eqn.inputs:
                if type(x) is not Lit and x not in slots:
                    c = pair.column_of.get(x)
                    if c is not None and c in where:
                        slots[x] = where[c]
                    else:
                        slots[x] = len(where) + len(self.needed)
                        self.needed.append((x, is_rounded(x.aval)))
                        self._given.append(pair.where(x))
        base = len(where) + len(self.needed)
        for eqn, made, outs in wanted:
            picks: list[int] = []
            for x, y in zip(eqn.inputs, made.inputs, strict=True):
                if type(x) is Lit:
                    picks.append(base + len(self.literals))
                    self.literals.append(numpy_namespace().value(y))
                else:
                    picks.append(slots[x])
            pick = _picker(picks)
            f = pair.functions(made)
            self.code.append((f, pick, made.primitive.multiple_results, outs))
            for _, c in outs:
                self.measured[c] = True

    def given(self, log: Log) -> list[Any]:
        """Return the values of `needed` in a log."""
        args, results = log.args, log.results
        return [
            args[i] if is_arg else results[i] if k is None else results[i][k]
            for is_arg, i, k in self._given
        ]

    def values(self, log: Log) -> Sequence[Any]:
        """Return the values of the columns in a log."""
        results = log.results
        if self._quick is not None:
            return self._quick(results)
        eqns = self.pair.own.eqns
        return [
            results[i][k] if eqns[i].primitive.multiple_results else results[i]
            for i, k in self._picks
        ]

    def shadows(self, log: Log, own: Sequence[Any], shadow: Shadow) -> list[Any]:
        """Return the values of the columns in a log of the wider run; the program's own value stands for a column that it has not."""
        wide = self.pair.wide
        assert wide is not None
        results, eqns, value = log.results, wide.eqns, shadow.value
        found = [
            x if j is None else results[j][k] if eqns[j].primitive.multiple_results else results[j]
            for x, j, (_, k) in zip(own, self._shadow, self._picks, strict=True)
        ]
        for c, _ in self.copies:
            found[c] = own[c]
        return [*map(value, found)] if shadow.in_file else found


# Facts of operations whose result k has all elements of operand k (of the first operand, where it has one result).
_ALL = ("kept", "permuted")
_MOVES = (*_ALL, "chosen", "placed", "ordered")


def moves_only(eqn: JaxprEqn) -> bool:
    """Whether an equation only moves elements of operands of its own type: it rounds nothing, in any precision."""
    if elements_facts[eqn.primitive] not in _MOVES:
        return False
    if any(
        isinstance(value, float) for value in eqn.params.values()
    ):  # what fills a gap is rounded
        return False
    dtypes = {x.aval.dtype for x in (*eqn.inputs, *eqn.out_binders) if is_rounded(x.aval)}
    return len(dtypes) == 1


def _is_done_again(made: JaxprEqn) -> bool:
    """Whether an equation of the wider jaxpr computes in the wider precision, and does nothing else."""
    if made.primitive.holds_jaxprs or has_effects(made):
        return False
    atoms = (*made.inputs, *made.out_binders)
    return all(x.aval.dtype.name in ("float64", "complex128") for x in atoms if is_rounded(x.aval))


def _groups(pair: Pair, columns: Sequence[int]) -> list[Group]:
    found: dict[Any, list[int]] = {}
    for n, c in enumerate(columns):
        i, k = pair.columns[c]
        aval: Any = pair.own.eqns[i].out_binders[k].aval
        found.setdefault((aval.dtype, not aval.shape), []).append(n)
    return [Group(where, scalars=scalars) for (_, scalars), where in found.items()]


def _operands(pair: Pair, columns: Sequence[int]) -> Any:
    xp, none = numpy_namespace(), len(pair.columns)
    rows: list[list[int]] = []
    for c in columns:
        inputs = pair.eqn(c).inputs
        rows.append([pair.column_of.get(x, none) for x in inputs if type(x) is not Lit])
    table = xp.full((len(rows), max(map(len, rows), default=0) or 1), none)
    for n, row in enumerate(rows):
        table[n, : len(row)] = row
    return table


def _picker(slots: Sequence[int]) -> Any:
    if len(slots) > 1:
        return operator.itemgetter(*slots)
    first = slots[0] if slots else 0
    return operator.itemgetter(slice(first, first + len(slots)))
