"""The running loops and their steps, and limits on the steps, calls and bytes of an evaluation.

Each loop of an evaluation counts its steps here. So a progress bar or the handler of Ctrl-C can
tell how far the evaluation has come, and an endless loop can be stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

from jaxprtool.ir.cells import holding
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = [
    "Loop",
    "Turns",
    "check_room",
    "count_call",
    "limited_bytes",
    "limited_seconds",
    "limited_steps",
    "limited_turns",
    "running_loops",
    "set_aside",
    "steps",
    "take_up",
    "where",
]


class Loop:
    """A running loop.

    Attributes:
      name: the primitive.
      total: the number of its steps; None when that is not known.
      span: the position of its body in the source, or None.
      step: the number of steps it has begun.
      position: the running step, from 0; for a scan, the position along the scanned axis.
    """

    __slots__ = ("name", "position", "span", "step", "total")

    def __init__(self, name: str, total: int | None, span: Any):
        self.name, self.total, self.span, self.step, self.position = name, total, span, 0, 0

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        return f"step {self.step:,}{of} of {self.name}"


class Turns:
    """Counts the steps of loops whose number of steps is not known in advance.

    Attributes:
      limit: the allowed number, of all these loops together; None: any number.
      taken: the number so far.
      over: whether the limit was exceeded.
    """

    __slots__ = ("limit", "over", "taken")

    def __init__(self, limit: int | None = None):
        self.limit, self.taken, self.over = limit, 0, False

    def count(self, loop: Loop) -> None:
        """Count a step; raises UsageError where the limit was reached before."""
        if self.limit is not None and self.taken >= self.limit:
            self.over = True
            _over_limit(loop, self.taken)
        self.taken += 1


_running: list[Loop] = []
_limit: list[int | None] = [None]


def steps(
    name: str, total: int | None, span: Any = None, order: Sequence[int] | None = None
) -> Iterator[int]:
    """Yield the position of each step of a loop, without end when `total` is None.

    `order` gives the order of the positions (first to last by default). Raises UsageError at the
    step limit.
    """
    loop, limit, end = Loop(name, total, span), _limit[0], _end[0]
    turns = _turns[0] if total is None else None
    before = _calls[0]
    _running.append(loop)
    try:
        numbers = order if order is not None else count() if total is None else range(total)
        for n, i in enumerate(numbers):
            if n == limit:
                _over_limit(loop, n)
            if end is not None and time.monotonic() > end:
                _too_long(loop)
            if turns is not None:
                turns.count(loop)
            loop.step, loop.position = n + 1, i
            _calls[0] = 0  # the steps are limited themselves
            yield i
    finally:
        _running.remove(loop)
        _calls[0] = before


def _over_limit(loop: Loop, limit: int) -> None:
    needs = "" if loop.total is None else f", and this one takes {loop.total:,}"
    fail(
        UsageError,
        f"{loop.name} has taken {limit:,} steps, as many as are allowed{needs}",
        "step-limit",
        span=loop.span,
        help="raise the limit with --step-limit",
    )


def _too_long(loop: Loop) -> None:
    fail(
        UsageError,
        f"{loop.name} has taken {loop.step:,} steps, and the time is up",
        "time-limit",
        span=loop.span,
    )


def limited_seconds(seconds: float | None) -> AbstractContextManager[None]:
    """Make loops on NumPy raise UsageError once so many seconds have passed in the block (None: no limit)."""
    return holding(_end, _end[0] if seconds is None else time.monotonic() + seconds)


def limited_turns(turns: Turns) -> AbstractContextManager[None]:
    """Count and limit, inside the block, the steps of loops on NumPy whose number is not known in advance."""
    return holding(_turns, turns)


@contextmanager
def limited_steps(limit: int | None = None) -> Iterator[None]:
    """Limit, inside the block, the steps of each loop on NumPy, and the number of calls outside of loops and in each step, to `limit`.

    None keeps the limit from outside. Calls are counted anew, so that each of several runs may make
    as many.
    """
    with holding(_limit, _limit[0] if limit is None else limit), holding(_calls, 0):
        yield


def count_call(span: Any = None) -> None:
    """Count one call of a jaxpr; raises UsageError where the step limit is exceeded, which limits calls too."""
    limit = _limit[0]
    if limit is None:
        return
    _calls[0] += 1
    if _calls[0] > limit:
        made = f"{_running[-1]} has" if _running else "the program has"
        fail(
            UsageError,
            f"{made} made {limit:,} calls, as many as steps are allowed",
            "step-limit",
            span=span,
            help="raise the limit with --step-limit",
        )


def limited_bytes(limit: int | None) -> AbstractContextManager[None]:
    """Limit, inside the block, the bytes of each array that an operation on NumPy makes on the way to its result."""
    return holding(_bytes, limit)


def check_room(nbytes: int, what: str) -> None:
    """Raise UsageError where such an array is larger than allowed, or than any array can be."""
    limit = _bytes[0]
    if nbytes > (_ADDRESSES if limit is None else limit):
        than = "there are addresses for" if limit is None else f"the limit of {limit:,}"
        fail(
            UsageError,
            f"{what} needs {nbytes:,} bytes on the way to its result, more than {than}",
            "too-large",
            help="" if limit is None else "raise the limit with --max-bytes",
        )


_ADDRESSES = (1 << 63) - 1


_calls = [0]
_bytes: list[int | None] = [None]
_end: list[float | None] = [None]
_turns: list[Turns | None] = [None]


def running_loops() -> list[Loop]:
    """Return the running loops, outermost first."""
    return list(_running)


def set_aside() -> tuple[Any, ...]:
    """Return the running loops and the limits of an evaluation that waits while another one runs, for `take_up`."""
    return [*_running], _limit[0], _calls[0], _bytes[0], _turns[0]


def take_up(held: tuple[Any, ...]) -> None:
    """Restore loops and limits that were set aside."""
    _running[:], _limit[0], _calls[0], _bytes[0], _turns[0] = held


def where() -> str:
    """Return the current position of evaluation in words (`step 5 of 100 of scan at f.jaxpr:2:5`);
    "" outside of loops.
    """
    loops = running_loops()
    parts = [str(loop) for loop in loops]
    at = f" at {loops[-1].span}" if loops and loops[-1].span is not None else ""
    return "in " + ", ".join(parts) + at if parts else ""
