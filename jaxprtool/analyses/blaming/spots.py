"""Large arrays with few bad elements are packed to the positions at which any of many values is bad."""

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

_WIDE = 128  # elements: smaller arrays are not packed
_SPARSE = 2  # arrays are packed if at most one element of so many is bad


class Spots:
    """For each shape of large arrays, the flat positions at which any value of that shape is bad.

    What is known of the elements of such values is packed: [n, positions] instead of [n, *shape].
    That of other shapes is left as it is.

    Attributes:
      key: identifies the shapes and positions; None before `set`.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[int, ...], Any] = {}
        self.key: Any = None

    def set(self, bad: dict[tuple[int, ...], Any]) -> None:
        """Set the positions. bad: for each shape a flat boolean array, true where a value is bad."""
        xp = numpy_namespace()
        for shape, where in bad.items():
            at = xp.flatnonzero(where)
            if len(at) * _SPARSE <= where.size:
                self._at[shape] = at
        self.key = tuple([(shape, at.tobytes()) for shape, at in self._at.items()])

    def at(self, shape: Sequence[int]) -> Any:
        """Return the flat positions that arrays of a shape are packed to; None where they are not packed."""
        return self._at.get((*shape,))

    def pack(self, x: Any, shape: Sequence[int]) -> Any:
        """Pack what is known of values of a shape: from [n, *shape] to [n, positions]."""
        at = self._at.get((*shape,))
        if at is None:
            return x
        if len(x) > 1 and not x.strides[0]:  # one row, repeated
            row = x[:1].reshape(1, -1)[:, at]
            return numpy_namespace().broadcast_to(row, (len(x), len(at)))
        return x.reshape(len(x), -1)[:, at]

    def spread(self, x: Any, shape: Sequence[int], fill: Any = 0) -> Any:
        """Unpack what is known of values of a shape to [n, *shape], with `fill` at the other positions."""
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
    """Find where large arrays in columns, and in those inside, are bad; set the columns' spots and codes."""
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
    """Where the values of large arrays are bad, gathered over columns.

    Attributes:
      bad: for each shape a flat boolean array, true where a value of that shape is bad.
      stretched: shapes that elementwise equations broadcast to each other, and which cannot be
        packed.
    """

    def __init__(self, sought: Sought):
        self._sought, self.bad = sought, dict[tuple[int, ...], Any]()
        self.stretched = set[tuple[int, ...]]()
        self._seen: dict[int, bool] = {}
        self._columns: list[tuple[Column, Any, tuple[int, ...]]] = []
        self._alike: dict[tuple[int, ...], Any] = {}

    def add(self, column: Column, v: Any) -> None:
        """Add the bad elements of the values of a variable."""
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
        """Return which elements are bad, or may be, in any of several values; None where none is."""
        where = self._sought.bad_ones
        if self._sought.adds_up and len(values) > 1:
            whole = values[0] + values[1]
            for x in values[2:]:
                whole += x
            return where(whole)
        found = [which for x in values if (which := where(x)) is not None]
        return numpy_namespace().logical_or.reduce(found) if found else None

    def settle(self, spots: Spots) -> None:
        """Set the codes of all variables that were added, packed."""
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
    """Return the floating binders of a jaxpr, and the floating results of its equations."""
    found = [v for v in jaxpr.all_binders if is_float(v.aval)]
    for plan in plans_of(jaxpr, sought).eqns:
        found += [plan.eqn.out_binders[k] for k in plan.floats]
    return found


def _stretched(jaxpr: Jaxpr) -> set[tuple[int, ...]]:
    """Return the shapes of operands and results of elementwise equations that broadcast: those with several shapes."""
    found = set[tuple[int, ...]]()
    for eqn in jaxpr.eqns:
        if is_elementwise(eqn.primitive):
            shapes = {x.aval.shape for x in (*eqn.inputs, *eqn.out_binders)} - {()}
            if len(shapes) > 1:
                found |= shapes
    return found


def _has_wide(column: Column) -> bool:
    """Whether a column's jaxpr has a floating array that is large enough to be packed."""
    jaxpr = column.logs[0].jaxpr
    outs = [v for eqn in jaxpr.eqns for v in eqn.out_binders]
    return any(is_float(v.aval) and v.aval.size >= _WIDE for v in (*jaxpr.all_binders, *outs))
