"""Arrays over many logs of one kind: values of variables, which elements are bad, and the numbers of their origin sets.

All arrays have a leading axis with a row for each log.
"""

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
    """Many logs of one kind, and what is known of each variable in all of them.

    Attributes:
      logs: the logs.
      context: the context of their jaxpr in the program; None where no such jaxpr was followed yet.
      codes: for each variable what is bad in it (`Sought.codes`), a row for each log; None where
        all logs are good.
      numbers: for each variable the origin-set numbers of its elements, a row for each log.
      unions: for each variable the number of the union of its elements' sets in each log, and in
        which logs the elements have different sets.
      inside: the columns of the jaxprs inside an equation, by the equation's index.
      spots: the positions that `codes` and `numbers` of large arrays are packed to (`spots.Spots`);
        None: nothing is packed.
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
        """Drop numbers and unions, which belong to another guess."""
        self.numbers.clear()
        self.unions.clear()

    def close(self) -> None:
        """Drop references to other columns, which refer to each other."""
        for inner in (x for found in self.inside.values() for x in found):
            inner.close()
        self._same.clear()
        self.inside.clear()

    def values(self, x: Any) -> list[Any]:
        """Return the value of an atom in each log."""
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
        """Return the flat positions that arrays of a shape are packed to; None where they are not packed."""
        return None if self.spots is None else self.spots.at(shape)

    def pack(self, x: Any, shape: Sequence[int]) -> Any:
        """Pack an array [n, *shape]: see `Spots.pack`."""
        return x if self.spots is None else self.spots.pack(x, shape)

    def spread(self, x: Any, shape: Sequence[int], fill: Any = 0) -> Any:
        """Unpack to [n, *shape]: see `Spots.spread`."""
        return x if self.spots is None else self.spots.spread(x, shape, fill)

    def picked(self, x: Any, at: Any) -> Any:
        """Return elements of an atom's value in each log, by their flat positions `at`: [n, len(at)].

        There is one row only where the value is the same object in all logs.
        """
        values = self.values(x)
        if values[0] is values[-1] and all([v is values[0] for v in values]):  # noqa: C419
            values = values[:1]
        if not x.aval.shape:
            return numpy_namespace().array(values).reshape(-1, 1)
        return _stacked([v.reshape(-1)[at] for v in values])

    def stack(self, x: Any) -> tuple[Any, bool]:
        """Return an atom's values stacked, and True; or the value that is the same object in all logs, and False."""
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
        """Return the first of some atoms that is the same object as a variable in every log, or None.

        The variable gets the codes of that atom.
        """
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
        """Return what is bad in an atom (`Sought.codes`), a row for each log; None where it is good in all."""
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
    """What is found in many logs of one kind while origins are propagated through them.

    Attributes:
      n: how many logs there are.
      sought: what a bad value is.
      sets: the origin sets that numbers stand for.
      guess: whether numbers are only guessed, and no facts are wanted.
      all_drop: whether any operation may turn a bad value into a good one.
      unknown: for each log, whether something in it is not known, or new.
      facts: for each floating variable an int64 for each log, which identifies how it is bad apart
        from its values: the number of the union of its elements' sets, and how it came about.
      worst: the equations that made bad values, with the state of the worst result in each log.
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
        """Begin with nothing known.

        Args:
          logs: the logs.
          sought: what a bad value is.
          sets: the origin sets that numbers stand for.
          number: the function that gives the number of a set of origins, given as bits.
          guess: whether numbers may be guessed where it takes long to compute them, and facts are
            not wanted.
        """
        self.n, self.sought, self.sets, self._number = len(logs), sought, sets, number
        self.guess, self.all_drop = guess, drops_any(sought)
        self.unknown = numpy_namespace().zeros(self.n, bool)
        self.facts: list[Any] = []
        self.worst: list[tuple[Made, Any]] = []

    # -- variables -----------------------------------------------------------------------------

    def note(self, column: Column, v: Any, numbers: Any, how: Any = 0) -> None:
        """Set the numbers of a variable, and add its fact.

        how: up to four flags of how it came about, as the bits of an int for each log.
        """
        column.numbers[v] = numbers
        if self.guess:
            return
        whole, several = column.unions.get(v) or self.unions(numbers)
        column.unions[v] = whole, several
        self.facts.append(whole.astype(numpy_namespace().int64) * 32 + several * 16 + how)

    def nothing(self) -> None:
        """Add the fact of a variable that is good in all logs."""
        if not self.guess:
            self.facts.append(numpy_namespace().zeros(self.n, numpy_namespace().int64))

    def unions(self, numbers: Any) -> tuple[Any, Any]:
        """Return for each log the number of the union of the elements' sets, and whether these differ."""
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
        """For each log, whether an element of one of several boolean arrays is true."""
        found = numpy_namespace().zeros(self.n, bool)
        for x in arrays:
            found |= any_in_rows(x)
        return found

    def full(self, where: Any, numbers: Any) -> Any:
        """Return an array with each log's number where a boolean array is true, else 0."""
        return numpy_namespace().where(where, rows(numbers, where), 0)


def _stacked(values: Sequence[Any]) -> Any:
    """Stack values of one shape along a new first axis."""
    xp, shape = numpy_namespace(), numpy_namespace().shape(values[0])
    if not shape:
        return xp.array(values)
    return xp.concatenate(values).reshape(len(values), *shape)


def rows(x: Any, like: Any) -> Any:
    """Return an array with axes of size 1 after its first one, so that it broadcasts to `like`."""
    if x.ndim == like.ndim:
        return x
    return x.reshape(len(x), *[1] * (like.ndim - x.ndim), *x.shape[1:])


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all([x is y for x, y in zip(a, b, strict=True)])  # noqa: C419 (quicker)


def inner_context(context: Context | None, log: Log) -> Context | None:
    """Return the context of a log's jaxpr, from that of the jaxpr around it; None where none was followed."""
    if context is None or log.eqn is None:
        return None
    return context.inner.get((log.eqn, log.param, log.branch))
