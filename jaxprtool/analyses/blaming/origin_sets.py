"""Sets of origins of the elements of arrays: each element has the number of its set, as many elements share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import any_in_rows
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["OriginSets", "Stacked"]

_SMALL = 100  # up to so many elements are read one by one
_FEW = 8  # up to so many sets are looked for one by one, which is the fastest way to read many elements
_WORD = 64  # bits of a word


class OriginSets:
    """A table of sets of origins. A set is an int whose bits are origins, and has a number; the empty set has 0.

    The numbers of the sets of an array's elements are an i32 array of its shape: `numbers` in what
    follows.
    """

    def __init__(self) -> None:
        self._bits: list[int] = [0]
        self._number: dict[int, int] = {0: 0}

    def number(self, bits: int) -> int:
        """Return the number of a set, which is added to the table if it is new."""
        found = self._number.get(bits)
        if found is None:
            found = self._number[bits] = len(self._bits)
            self._bits.append(bits)
        return found

    def full(self, where: Any, bits: int) -> Any:
        """Return numbers: that of one set where a boolean array is true, else 0."""
        xp = numpy_namespace()
        return xp.multiply(where, self.number(bits), dtype=xp.int32)

    def among(self, numbers: Any) -> set[int]:
        """Return the different numbers in an array, without 0."""
        xp = numpy_namespace()
        flat = numbers.ravel()
        if flat.size > _SMALL:
            most = int(flat.max())
            if most <= _FEW:
                return {n for n in range(1, most + 1) if n == most or (flat == n).any()}
            flat = flat[flat != 0]  # most elements are good, as a rule
        if flat.size <= _SMALL:
            found = {*flat.tolist()}
        else:
            found = {*xp.flatnonzero(xp.bincount(flat)).tolist()}
        found.discard(0)
        return found

    def whole(self, numbers: Iterable[int]) -> int:
        """Return the union of the sets of some numbers, as bits."""
        bits = 0
        for n in numbers:
            bits |= self._bits[n]
        return bits

    def union(self, a: Any, b: Any) -> Any:
        """Return the numbers of the elementwise unions of two arrays of numbers, which broadcast."""
        xp = numpy_namespace()
        found = xp.maximum(a, b)
        both = (a != b) & (a != 0) & (b != 0)
        if not both.any():
            return found
        n = len(self._bits)
        a, b = xp.broadcast_to(a, both.shape), xp.broadcast_to(b, both.shape)
        pairs, where = xp.unique(a[both].astype(xp.int64) * n + b[both], return_inverse=True)
        unions = [self.number(self._bits[p // n] | self._bits[p % n]) for p in pairs.tolist()]
        found = xp.asarray(found)
        found[both] = xp.array(unions, xp.int32)[where]
        return found

    def row_unions(self, rows: Any) -> Any:
        """Return, for each row of numbers [n, m], the number of the union of its sets; some number must not be 0."""
        xp = numpy_namespace()
        among = [*self.among(rows)]
        if len(among) <= _FEW:
            has = xp.stack([any_in_rows(rows == n) for n in among], axis=1)
            found, where = xp.unique(has.dot(1 << xp.arange(len(among))), return_inverse=True)
            sets = [[n for k, n in enumerate(among) if x >> k & 1] for x in found.tolist()]
            return xp.array([self.number(self.whole(ns)) for ns in sets], xp.int32)[where]
        union = self.whole(among)
        places = [i for i in range(union.bit_length()) if union >> i & 1]
        if len(places) > _WORD:
            return xp.array([self.number(self.whole(self.among(x))) for x in rows], xp.int32)
        words = xp.zeros(len(self._bits), xp.uint64)
        for n in among:
            bits = self._bits[n]
            words[n] = sum(1 << k for k, i in enumerate(places) if bits >> i & 1)
        found, where = xp.unique(xp.bitwise_or.reduce(words[rows], axis=1), return_inverse=True)
        sets = [sum(1 << i for k, i in enumerate(places) if w >> k & 1) for w in found.tolist()]
        return xp.array([self.number(bits) for bits in sets], xp.int32)[where]

    def in_table(self, values: Any) -> Any:
        """Return values with 0 in the place of those that are no number of a set."""
        xp = numpy_namespace()
        values = xp.asarray(values)
        outside = values.view(xp.uint32) >= len(self._bits)
        return xp.where(outside, 0, values) if outside.any() else values


class Stacked:
    """The origins of a result that a loop stacks up from its iterations.

    They take an array only from the second different set on.

    Attributes:
      numbers: the numbers of the elements of the stacked result; None while all of its bad elements
        have the same set.
    """

    __slots__ = ("_only", "_sets", "_shape", "numbers")

    def __init__(self, sets: OriginSets, shape: tuple[int, ...]):
        self._sets, self._shape, self._only = sets, shape, 0
        self.numbers: Any = None

    def put(self, at: int | slice, bits: int, numbers: Any = None) -> None:
        """Set the origins of the bad elements of one iteration, or of a slice of them.

        Args:
          at: the iteration, or the slice of iterations.
          bits: the origins of all bad elements.
          numbers: the numbers of the elements, where these have different sets.
        """
        xp = numpy_namespace()
        if self.numbers is None:
            if numbers is None and self._only in (0, bits):
                self._only = bits
                return
            self.numbers = xp.full(self._shape, self._sets.number(self._only), xp.int32)
        self.numbers[at] = self._sets.number(bits) if numbers is None else numbers

    def put_all(self, steps: Sequence[int], numbers: Any) -> None:
        """Set the numbers of the elements of several iterations: a row for each, 0 for good elements."""
        among = self._sets.among(numbers)
        if len(among) == 1:
            self.put(slice(min(steps), max(steps) + 1), self._sets.whole(among))
        elif among:
            xp = numpy_namespace()
            if self.numbers is None:
                self.numbers = xp.full(self._shape, self._sets.number(self._only), xp.int32)
            self.numbers[xp.array(steps)] = numbers
