"""The positions at which elements are bad in any of many values: of large arrays with few bad elements, only these are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.columns import Column
from jaxprtool.analyses.blaming.plans import is_float, plans_of
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Jaxpr

__all__ = ["Spots", "spots_of"]

_WIDE = 128  # elements: smaller arrays are looked at as they are
_SPARSE = 2  # of so many elements one may be bad


class Spots:
    """Of each shape of large arrays the positions, among the elements in their order, where any value of it is bad.

    What is known of elements is packed: a row for each value, a column for each of these positions. That of other shapes is as the
    values are.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[int, ...], Any] = {}
        self.key: Any = None

    def set(self, bad: dict[tuple[int, ...], Any]) -> None:
        """Say where values are bad: of each shape a boolean for each element."""
        xp = numpy_namespace()
        for shape, where in bad.items():
            at = xp.flatnonzero(where)
            if len(at) * _SPARSE <= where.size:
                self._at[shape] = at
        self.key = tuple([(shape, at.tobytes()) for shape, at in self._at.items()])

    def at(self, shape: Sequence[int]) -> Any:
        """The positions of the elements of arrays of a shape that are looked at; None where all are."""
        return self._at.get((*shape,))

    def pack(self, x: Any, shape: Sequence[int]) -> Any:
        """What is known of the elements of values of a shape, packed. x: [n, *shape]."""
        at = self._at.get((*shape,))
        if at is None:
            return x
        if len(x) > 1 and not x.strides[0]:  # one row, repeated
            row = x[:1].reshape(1, -1)[:, at]
            return numpy_namespace().broadcast_to(row, (len(x), len(at)))
        return x.reshape(len(x), -1)[:, at]

    def spread(self, x: Any, shape: Sequence[int], fill: Any = 0) -> Any:
        """What is known of all elements of values of a shape, with `fill` for those that are bad nowhere: [n, *shape]."""
        at = self._at.get((*shape,))
        if at is None:
            return x
        xp, n = numpy_namespace(), len(x)
        rows = x[:1] if n > 1 and not x.strides[0] else x
        size = 1
        for k in shape:
            size *= k
        whole = xp.full((len(rows), size), fill, x.dtype)
        whole[:, at] = rows
        return xp.broadcast_to(whole.reshape(len(rows), *shape), (n, *shape))


def spots_of(columns: Sequence[Column], sought: Sought) -> Spots:
    """The positions where values of large arrays in some columns, and in those inside, are bad; their codes are packed then."""
    spots = Spots()
    if not any(_has_wide(column) for column in columns):
        return spots
    every = [*columns]
    for column in every:
        column.spots = spots
        every += [x for inner in column.inside.values() for x in inner]
    found = _Found(sought)
    for column in every:
        found.stretched |= _stretched(column.logs[0].jaxpr)
        for v in _floats(column.logs[0].jaxpr, sought):
            found.add(column, v)
    spots.set({shape: bad for shape, bad in found.bad.items() if shape not in found.stretched})
    found.settle(spots)
    return spots


class _Found:
    """Where values of large arrays are bad.

    Attributes:
      bad: of each shape a boolean for each element, true where it is bad in any.
      stretched: shapes of arrays that stretch to each other.
    """

    def __init__(self, sought: Sought):
        self._sought, self.bad = sought, dict[tuple[int, ...], Any]()
        self.stretched = set[tuple[int, ...]]()
        self._seen: dict[int, bool] = {}
        self._columns: list[tuple[Column, Any, tuple[int, ...]]] = []
        self._alike: dict[tuple[int, ...], Any] = {}

    def add(self, column: Column, v: Any) -> None:
        """Look at the values of a variable."""
        if v.aval.size < _WIDE:
            return
        xp, shape, values = numpy_namespace(), v.aval.shape, column.values(v)
        ids = (*map(id, values),)
        self._columns.append((column, v, ids))
        if shape not in self.bad:
            self.bad[shape] = xp.zeros(v.aval.size, bool)
        bad, seen = self.bad[shape], self._seen
        new = [x for i, x in zip(ids, values, strict=True) if i not in seen]
        found = self._in_any(new) if new else None
        seen.update(dict.fromkeys(map(id, new), found is not None))
        if found is not None:
            xp.logical_or(bad, found.reshape(-1), bad)

    def _in_any(self, values: Sequence[Any]) -> Any:
        """Which elements are bad in some of several values, or may be; None where none is."""
        where = self._sought.bad_ones
        if self._sought.adds_up and len(values) > 1:
            whole = values[0] + values[1]
            for x in values[2:]:
                whole += x
            return where(whole)
        found = [which for x in values if (which := where(x)) is not None]
        return numpy_namespace().logical_or.reduce(found) if found else None

    def settle(self, spots: Spots) -> None:
        """Set the codes of the variables, packed."""
        for column, v, ids in self._columns:
            if ids not in self._alike:
                self._alike[ids] = self._codes(column, v, ids, spots)
            column.codes[v] = self._alike[ids]

    def _codes(self, column: Column, v: Any, ids: Sequence[int], spots: Spots) -> Any:
        if not any(self._seen[i] for i in ids):
            return None
        at = spots.at(v.aval.shape)
        if at is None:
            return column.look(v, self._sought)
        values = column.values(v)
        one = ids[0] == ids[-1] and len({*ids}) == 1
        picked = [x.reshape(-1)[at] for x in (values[:1] if one else values)]
        codes = self._sought.codes(numpy_namespace().concatenate(picked))
        if codes is None:
            return None
        codes = codes.reshape(-1, len(at))
        return numpy_namespace().broadcast_to(codes, (len(values), len(at)))


def _floats(jaxpr: Jaxpr, sought: Sought) -> list[Any]:
    """The variables of a jaxpr that may hold bad values."""
    found = [v for v in jaxpr.all_binders if is_float(v.aval)]
    for plan in plans_of(jaxpr, sought).eqns:
        found += [plan.eqn.out_binders[k] for k in plan.floats]
    return found


def _stretched(jaxpr: Jaxpr) -> set[tuple[int, ...]]:
    """The shapes of operands and results of elementwise equations where these have several: axes of size 1 stretch."""
    found = set[tuple[int, ...]]()
    for eqn in jaxpr.eqns:
        if is_elementwise(eqn.primitive):
            shapes = {x.aval.shape for x in (*eqn.inputs, *eqn.out_binders)} - {()}
            if len(shapes) > 1:
                found |= shapes
    return found


def _has_wide(column: Column) -> bool:
    """Whether a jaxpr has large arrays of floats."""
    jaxpr = column.logs[0].jaxpr
    outs = [v for eqn in jaxpr.eqns for v in eqn.out_binders]
    return any(is_float(v.aval) and v.aval.size >= _WIDE for v in (*jaxpr.all_binders, *outs))
