"""Values of variables in many jaxprs of one kind, a row for each, and what is known of the origins of their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought, any_in_rows, most_in_rows
from jaxprtool.analyses.blaming.origin_sets import OriginSets
from jaxprtool.analyses.blaming.provenance import Context, Made
from jaxprtool.analyses.blaming.separation import drops_any
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Lit

__all__ = ["Column", "Steps", "inner_context", "rows"]


class Column:
    """Logs of one kind, and what is known of each variable in all of them.

    Attributes:
      logs: the logs; context: where their jaxpr stands in the program.
      codes: of each variable that is bad in some of them what is bad (`Sought.codes`), a row for each log.
      numbers: the numbers of the sets of origins of its elements; unions: of all its elements in each log, and where these have
        several.
      inside: the columns of the jaxprs inside an equation, by its position.
      spots: where elements of large arrays are bad (`spots.Spots`): codes and numbers are packed by it. None where they are not.
    """

    def __init__(self, logs: Sequence[Log], context: Context | None):
        self.logs, self.context = logs, context
        self.codes: dict[Any, Any] = {}
        self.numbers: dict[Any, Any] = {}
        self.unions: dict[Any, tuple[Any, Any]] = {}
        self._stacks: dict[Any, Any] = {}
        self._same: dict[Any, Any] = {}
        self.inside: dict[int, list[Column]] = {}
        self.spots: Any = None
        for k, (i, _) in enumerate(logs[0].inside):
            inner = zip(*[log.inside[k][1] for log in logs], strict=True)
            self.inside[i] = [Column(x, inner_context(context, x[0])) for x in inner]

    def forget(self) -> None:
        """Let go of numbers: they are those of another guess."""
        self.numbers.clear()
        self.unions.clear()

    def close(self) -> None:
        """Let go of other columns, for they refer to each other."""
        for inner in (x for found in self.inside.values() for x in found):
            inner.close()
        self._same.clear()
        self.inside.clear()

    def values(self, x: Any) -> list[Any]:
        """The value of an atom in each log."""
        if type(x) is Lit:
            return [numpy_namespace().value(x)] * len(self.logs)
        layout = self.logs[0].layout
        made = layout.made.get(x)
        if made is None:
            at = layout.args[x]
            return [log.args[at] for log in self.logs]
        i, k = made
        if layout.jaxpr.eqns[i].primitive.multiple_results:
            return [log.results[i][k] for log in self.logs]
        return [log.results[i] for log in self.logs]

    def at(self, shape: Sequence[int]) -> Any:
        """The positions of the elements of arrays of a shape that are looked at; None where all are."""
        return None if self.spots is None else self.spots.at(shape)

    def pack(self, x: Any, shape: Sequence[int]) -> Any:
        """What is known of elements, packed."""
        return x if self.spots is None else self.spots.pack(x, shape)

    def spread(self, x: Any, shape: Sequence[int], fill: Any = 0) -> Any:
        """What is known of all elements."""
        return x if self.spots is None else self.spots.spread(x, shape, fill)

    def picked(self, x: Any, at: Any) -> Any:
        """Some elements of the value of an atom in each log, by their positions: [n, len(at)]; a row for all, where it has one value."""
        values = self.values(x)
        if values[0] is values[-1] and all([v is values[0] for v in values]):  # noqa: C419
            values = values[:1]
        if not x.aval.shape:
            return numpy_namespace().array(values).reshape(-1, 1)
        return _stacked([v.reshape(-1)[at] for v in values])

    def stack(self, x: Any) -> tuple[Any, bool]:
        """The values of an atom, stacked up; or the one value that it has in all logs, and False."""
        found = self._stacks.get(x)
        if found is None:
            values = self.values(x)
            if values[0] is values[-1] and all([v is values[0] for v in values]):  # noqa: C419
                found = values[0], False
            else:
                found = _stacked(values), True
            self._stacks[x] = found
        return found

    def is_same(self, v: Any, others: Sequence[tuple[Column, Any]]) -> tuple[Column, Any] | None:
        """The one of some atoms of columns which a variable is in all logs, whose codes it has then; None where it is none of them."""
        found = self._same.get(v, self)
        if found is self:
            values = self.values(v)
            found = self._same[v] = next(
                (
                    (column, x)
                    for column, x in others
                    if x in column.codes and _same(values, column.values(x))
                ),
                None,
            )
            if found is not None:
                self.codes[v] = found[0].codes[found[1]]
        return found

    def look(self, x: Any, sought: Sought) -> Any:
        """What is bad in a variable, a row for each log; None where nothing is."""
        xp, n = numpy_namespace(), len(self.logs)
        if x in self.codes:
            return self.codes[x]
        whole, each = self.stack(x)
        shape = xp.shape(whole)
        codes = sought.codes(xp.asarray(whole).reshape(-1))
        if codes is not None:
            codes = codes.reshape(shape)
            codes = codes if each else xp.broadcast_to(codes, (n, *shape))
        self.codes[x] = codes
        return codes


class Steps:
    """What is known of many logs of one kind.

    Attributes:
      n: how many.
      unknown: in which of them something is not known, or new.
      facts: what is so in each of them, but for values: of each floating variable the number of the set of the origins of its
        elements, and how it has come to be.
      worst: of what has made bad values, the state of the worst result in each of them.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        sought: Sought,
        sets: OriginSets,
        number: Callable[[int], int],
        *,
        guess: bool,
    ):
        """Nothing is known.

        Args:
          logs: the logs.
          sought: what a bad value is.
          sets: the sets of origins of which there are numbers.
          number: the number of the set of some origins, as bits.
          guess: whether numbers are only guessed, where it takes long to know them, and facts are not wanted.
        """
        self.n, self.sought, self.sets, self._number = len(logs), sought, sets, number
        self.guess, self.all_drop = guess, drops_any(sought)
        self.unknown = numpy_namespace().zeros(self.n, bool)
        self.facts: list[Any] = []
        self.worst: list[tuple[Made, Any]] = []

    # -- what is told of a variable ------------------------------------------------------------

    def note(self, column: Column, v: Any, numbers: Any, how: Any = 0) -> None:
        """Say what the numbers of a variable are; `how`: up to four facts, as the bits of a number for each log."""
        column.numbers[v] = numbers
        if self.guess:
            return
        whole, several = column.unions.get(v) or self.unions(numbers)
        column.unions[v] = whole, several
        self.facts.append(whole.astype(numpy_namespace().int64) * 32 + several * 16 + how)

    def nothing(self) -> None:
        """A variable is good in all logs."""
        if not self.guess:
            self.facts.append(numpy_namespace().zeros(self.n, numpy_namespace().int64))

    def unions(self, numbers: Any) -> tuple[Any, Any]:
        """The number of the union of the sets of each row, and in which rows there are several."""
        xp = numpy_namespace()
        flat = numbers.reshape(self.n, -1)
        if not flat.shape[1]:
            return xp.zeros(self.n, xp.int32), xp.zeros(self.n, bool)
        most = most_in_rows(flat)
        several = any_in_rows((flat != most[:, None]) & (flat != 0))
        if several.any():
            most = most.copy()
            most[several] = self.sets.row_unions(flat[several])
        return most, several

    def any_of(self, arrays: Sequence[Any]) -> Any:
        """In which logs some element of one of some boolean arrays is true."""
        found = numpy_namespace().zeros(self.n, bool)
        for x in arrays:
            found |= any_in_rows(x)
        return found

    def full(self, where: Any, numbers: Any) -> Any:
        """The number of each log where a boolean array is true, else 0."""
        return numpy_namespace().where(where, rows(numbers, where), 0)


def _stacked(values: Sequence[Any]) -> Any:
    """Values of one type as one array."""
    xp, shape = numpy_namespace(), numpy_namespace().shape(values[0])
    if not shape:
        return xp.array(values)
    return xp.concatenate(values).reshape(len(values), *shape)


def rows(x: Any, like: Any) -> Any:
    """An array with a row for each log, whose elements stretch to those of another one."""
    if x.ndim == like.ndim:
        return x
    return x.reshape(len(x), *[1] * (like.ndim - x.ndim), *x.shape[1:])


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all([x is y for x, y in zip(a, b, strict=True)])  # noqa: C419 (quicker)


def inner_context(context: Context | None, log: Log) -> Context | None:
    """Where the jaxpr of a log stands in the program; None where none like it was followed. context: where its equation does."""
    if context is None or log.eqn is None:
        return None
    return context.inner.get((log.eqn, log.param, log.branch))
