"""Run a compiled program under XLA's profiler to measure how long each instruction of the optimised HLO takes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.backends.xla import client
from jaxprtool.backends.xla.client import TraceEvent
from jaxprtool.backends.xla.failures import reason
from jaxprtool.backends.xla.hlo_shares import Shares, shares_of
from jaxprtool.core.clock import Clock
from jaxprtool.ir.diagnostics import UnsupportedError, fail

__all__ = ["Measured", "Piece", "finished", "profiled"]

_MARK = "jaxprtool run"


class Piece(NamedTuple):
    """An instruction that ran: its name, its thread, and when, in nanoseconds."""

    operation: str
    thread: int
    start: float
    end: float


class Measured(NamedTuple):
    """Measurements of all runs, in nanoseconds.

    Attributes:
      runs: the number of runs.
      whole: their total time.
      own: for each instruction the time spent in it, without instructions that it runs.
      calls: the number of times each was executed.
      shares: the operations fused into each (`hlo_shares`); for an instruction that runs others,
        which have times of their own, only itself.
      pieces: the instructions of the last run, with their times.
      outs: the results of the last run.
    """

    runs: int
    whole: float
    own: dict[str, float]
    calls: dict[str, int]
    shares: dict[str, Shares]
    pieces: list[Piece]
    outs: list[Any]


def profiled(
    call: Callable[..., list[Any]],
    args: Sequence[Any],
    text: str,
    seconds: float,
    most: int,
) -> Measured:
    """Run a compiled program under XLA's profiler, after one run without it.

    Args:
      call: the program, with located metadata.
      args: its arguments, on the device.
      text: its optimised HLO.
      seconds: how long to measure: at least one run.
      most: the largest number of runs.

    Raises:
      UnsupportedError: there is no profiler, or it runs already; or XLA cannot run the program.
    """
    clock = Clock(seconds)
    finished(call(*args))
    try:
        tracing = client.Tracing()
    except (ImportError, RuntimeError) as e:
        message = f"XLA's profiler does not start: {reason(e)}"
        fail(UnsupportedError, message, "no-profiler")
    outs: list[Any] = []
    begin = clock.taken()
    try:
        for i in range(most):
            if i and not clock.has_room(clock.taken() - begin, i):
                break
            with tracing.marked(_MARK):
                outs = finished(call(*args))
    finally:
        threads = tracing.stop()
    return _measured(threads, shares_of(text), outs)


def finished(results: list[Any]) -> list[Any]:
    """Return the results, once they are computed."""
    for x in results:
        wait = getattr(x, "block_until_ready", None)
        if wait is not None:
            wait()
    return results


def _measured(
    threads: Sequence[Sequence[TraceEvent]],
    said: dict[str, tuple[str, Shares]],
    outs: list[Any],
) -> Measured:
    windows = sorted((e.start, e.end) for events in threads for e in events if e.name == _MARK)
    first, last = windows[0][0], windows[-1]
    pieces = [
        Piece(e.operation, i, e.start, e.end)
        for i, events in enumerate(threads)
        for e in events
        if e.operation and e.start >= first and e.end <= last[1]
    ]
    stretches: list[Piece] = []
    holders: set[str] = set()
    by_thread: dict[int, list[Piece]] = {}
    for p in pieces:
        by_thread.setdefault(p.thread, []).append(p)
    for inside in by_thread.values():
        stretches += innermost(inside, holders)
    starts = [start for start, _ in windows]
    calls = Counter(x for inside in by_thread.values() for x in executed(inside, starts))
    ran = {name: said.get(name, ("", {})) for name in calls}
    return Measured(
        len(windows),
        sum(end - start for start, end in windows),
        shared_out(stretches),
        calls,
        {name: {op: 1.0} if name in holders else inside for name, (op, inside) in ran.items()},
        [p for p in pieces if p.start >= last[0]],
        outs,
    )


def executed(pieces: Sequence[Piece], runs: Sequence[float]) -> Iterator[str]:
    """Yield the instructions that one thread executed, each as often as it was executed.

    XLA may execute one in two steps (a sort: a copy, and the sort in place), which follow each
    other in one run.

    Args:
      pieces: in the order in which they began.
      runs: when each run began.
    """
    before = None
    for p in pieces:
        step = p.operation, bisect_right(runs, p.start)
        if step != before:
            yield p.operation
        before = step


def innermost(pieces: Sequence[Piece], holders: set[str]) -> Iterator[Piece]:
    """Yield the intervals on one thread in which each instruction was the innermost running one.

    Args:
      pieces: in the order in which they began, outer ones before inner ones.
      holders: the instructions in which others ran are added to it.
    """
    open_: list[Piece] = []
    at = 0.0

    def until(time: float) -> Iterator[Piece]:
        nonlocal at
        if open_ and time > at:
            yield open_[-1]._replace(start=at, end=time)
        at = max(at, time)

    for p in pieces:
        while open_ and open_[-1].end <= p.start:
            yield from until(open_[-1].end)
            open_.pop()
        yield from until(p.start)
        if open_:
            holders.add(open_[-1].operation)
        open_.append(p)
    while open_:
        yield from until(open_[-1].end)
        open_.pop()


def shared_out(stretches: Sequence[Piece]) -> dict[str, float]:
    """Return the time of each instruction; instructions that run at the same time on several
    threads share it equally.
    """
    marks = sorted(
        [(s.start, 1, i) for i, s in enumerate(stretches)]
        + [(s.end, 0, i) for i, s in enumerate(stretches)]
    )
    found: dict[str, float] = {}
    active: dict[int, None] = {}
    at = 0.0
    for time, begins, i in marks:
        for j in active:
            name = stretches[j].operation
            found[name] = found.get(name, 0.0) + (time - at) / len(active)
        at = time
        if begins:
            active[i] = None
        else:
            active.pop(i, None)
    return found
