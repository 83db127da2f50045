"""The running loops and their steps, and limits on the steps, calls and bytes of an evaluation.

Each loop of an evaluation counts its steps here. So a progress bar or the handler of Ctrl-C can
tell how far the evaluation has come, and an endless loop can be stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from jaxprtool.ir.contexts import holding
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = [
    "Loop",
    "Turns",
    "check_room",
    "count_call",
    "innermost_loop",
    "limited_bytes",
    "limited_seconds",
    "limited_steps",
    "limited_turns",
    "no_loops",
    "running_loops",
    "steps",
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


_running: ContextVar[list[Loop] | None] = ContextVar("running loops", default=None)
_limit: ContextVar[int | None] = ContextVar("most steps", default=None)
_calls: ContextVar[list[int] | None] = ContextVar("calls made", default=None)
_bytes: ContextVar[int | None] = ContextVar("most bytes", default=None)
_end: ContextVar[float | None] = ContextVar("end of the time", default=None)
_turns: ContextVar[Turns | None] = ContextVar("turns", default=None)


def steps(
    name: str, total: int | None, span: Any = None, order: Sequence[int] | None = None
) -> Iterator[int]:
    """Yield the position of each step of a loop, without end when `total` is None.

    `order` gives the order of the positions (first to last by default). Raises UsageError at the
    step limit.
    """
    loop, limit, end = Loop(name, total, span), _limit.get(), _end.get()
    turns = _turns.get() if total is None else None
    calls = _calls.get() or [0]
    before = calls[0]
    running = _loops()
    running.append(loop)
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
            calls[0] = 0  # the steps are limited themselves
            yield i
    finally:
        running.remove(loop)
        calls[0] = before


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
    """Make loops on NumPy raise UsageError once so many seconds have passed in the block.

    None keeps the limit from outside, and so does a later one.
    """
    ends = [_end.get(), None if seconds is None else time.monotonic() + seconds]
    return holding(_end, min((x for x in ends if x is not None), default=None))


def limited_turns(turns: Turns) -> AbstractContextManager[None]:
    """Count and limit, inside the block, the steps of loops on NumPy whose number is not known in advance."""
    return holding(_turns, turns)


@contextmanager
def limited_steps(limit: int | None = None) -> Iterator[None]:
    """Limit, inside the block, the steps of each loop on NumPy, and the number of calls outside of loops and in each step, to `limit`.

    None keeps the limit from outside. Calls are counted anew, so that each of several runs may make
    as many.
    """
    _loops()  # a thread that is started inside the block, and the one that waits for it, see the same loops
    with holding(_limit, _limit.get() if limit is None else limit), holding(_calls, [0]):
        yield


def count_call(span: Any = None) -> None:
    """Count one call of a jaxpr; raises UsageError where the step limit is exceeded, which limits calls too."""
    limit, calls = _limit.get(), _calls.get()
    if limit is None or calls is None:
        return
    calls[0] += 1
    if calls[0] > limit:
        running = running_loops()
        made = f"{running[-1]} has" if running else "the program has"
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
    limit = _bytes.get()
    if nbytes > (_ADDRESSES if limit is None else limit):
        than = "there are addresses for" if limit is None else f"the limit of {limit:,}"
        fail(
            UsageError,
            f"{what} needs {nbytes:,} bytes on the way to its result, more than {than}",
            "too-large",
            help="" if limit is None else "raise the limit with --max-bytes",
        )


_ADDRESSES = (1 << 63) - 1


def running_loops() -> list[Loop]:
    """Return the running loops, outermost first."""
    return list(_loops())


def innermost_loop() -> tuple[int, Loop | None]:
    """Return how many loops run, and the innermost one."""
    running = _loops()
    return len(running), running[-1] if running else None


def _loops() -> list[Loop]:
    """Return the list of the running loops, which the context and its copies share."""
    running = _running.get()
    if running is None:
        running = []
        _running.set(running)
    return running


def no_loops() -> AbstractContextManager[None]:
    """Begin, inside the block, with no running loops: for an evaluation beside another one."""
    return holding(_running, [])


def where() -> str:
    """Return the current position of evaluation in words (`step 5 of 100 of scan at f.jaxpr:2:5`);
    "" outside of loops.
    """
    loops = running_loops()
    parts = [str(loop) for loop in loops]
    at = f" at {loops[-1].span}" if loops and loops[-1].span is not None else ""
    return "in " + ", ".join(parts) + at if parts else ""
