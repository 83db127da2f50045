"""Shrink the arguments on which two programs differ to simpler ones, by trials."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

__all__ = ["shrunk"]

_TRIALS, _SECONDS = 2_000, 20  # how often, and how long, both programs are run

Values = list[Any]


def shrunk(
    args: Values, differs: Callable[[Values], bool], candidates: Callable[[Any], Sequence[Any]]
) -> Values:
    """Return simpler arguments on which two programs still differ.

    All elements, then halves, quarters, ... of them, down to single elements, become zeros; then
    each element that is left becomes as simple a number as it can. What is reached after 2,000
    trials or 20 seconds is the answer.

    Args:
      args: arrays, or keys, which stay.
      differs: differs(args) says whether the programs differ, and the arguments are allowed.
      candidates: candidates(element) are simpler elements, the simplest first.
    """
    smaller = _Smaller(list(args), differs)
    with contextlib.suppress(_Enough):
        smaller.zero()
        smaller.simplify(candidates)
    return smaller.args


class _Enough(Exception):
    """The limit of trials or seconds is reached."""


class _Smaller:
    """Arguments on which two programs differ, which become simpler.

    Args:
      args: the arguments to begin with.
      differs: see `shrunk`.

    Attributes:
      args: the simplest so far.
    """

    def __init__(self, args: Values, differs: Callable[[Values], bool]) -> None:
        self.args, self._differs = args, differs
        self._trials, self._stop = _TRIALS, time.monotonic() + _SECONDS
        self._where = [i for i, x in enumerate(args) if _has_numbers(x)]

    def _takes(self, changed: dict[int, Any]) -> bool:
        """Try some arguments exchanged; if the programs still differ, keep them and return True. Raises _Enough."""
        if self._trials == 0 or time.monotonic() > self._stop:
            raise _Enough
        self._trials -= 1
        tried = [changed.get(i, x) for i, x in enumerate(self.args)]
        if not self._differs(tried):
            return False
        self.args = tried
        return True

    def zero(self) -> None:
        """Put zeros into slices of all elements, which go on from one argument to the next."""
        starts = [*accumulate((self.args[i].size for i in self._where), initial=0)]
        size = total = starts[-1]
        while size >= 1:
            for start in range(0, total, size):
                changed = dict[int, Any]()
                first, last = bisect_right(starts, start) - 1, bisect_left(starts, start + size)
                for i, offset in zip(self._where[first:last], starts[first:last], strict=False):
                    zeroed = _zeroed(self.args[i], start - offset, start + size - offset)
                    if zeroed is not None:
                        changed[i] = zeroed
                if changed:
                    self._takes(changed)
            size //= 2

    def simplify(self, candidates: Callable[[Any], Sequence[Any]]) -> None:
        """Replace each element by the simplest candidate with which the programs still differ."""
        for i in self._where:
            for k in range(self.args[i].size):
                for value in candidates(self.args[i].reshape(-1)[k : k + 1].reshape(())):
                    flat = self.args[i].reshape(-1).copy()
                    flat[k] = value
                    if self._takes({i: flat.reshape(self.args[i].shape)}):
                        break


def _has_numbers(x: Any) -> bool:
    """Whether an argument is an array of numbers, and not a key."""
    return hasattr(x, "astype") and not (x.dtype.kind == "V" and x.dtype.names is not None)


def _zeroed(x: Any, start: int, stop: int) -> Any:
    """Return an array with zeros from start to stop of its flat form, which may lie outside; None where nothing changes."""
    flat = x.reshape(-1)
    inside = slice(max(start, 0), max(stop, 0))
    if not flat[inside].any():
        return None
    flat = flat.copy()
    flat[inside] = 0
    return flat.reshape(x.shape)
