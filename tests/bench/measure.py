"""Rows of the table, and how a figure is taken: the smallest of a few runs, ours and JAX's in turn.

The order changes from turn to turn, since what runs before a function moves its time by a microsecond."""

from __future__ import annotations

import functools
import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Row:
    """One line of the table: our time and JAX's, in microseconds an equation (or milliseconds)."""

    what: str
    ours: float
    theirs: float | None
    budget: float | None
    unit: str = "us/eqn"

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    def __str__(self) -> str:
        theirs = f"{self.theirs:10.2f}" if self.theirs is not None else " " * 10
        ratio = f"{self.ratio:8.3f}" if self.ratio is not None else " " * 8
        budget = f"{self.budget:8.2f}" if self.budget is not None else " " * 8
        compared = self.ratio if self.ratio is not None else self.ours
        mark = "" if self.budget is None else "ok" if compared <= self.budget else "OVER"
        return f"{self.what:34}{self.ours:10.2f}{theirs}{ratio}{budget}  {self.unit:7} {mark}"


@dataclass(frozen=True)
class On:
    """A function whose argument is created anew for each run; its creation is not timed."""

    make: Callable[[], Any]
    run: Callable[[Any], Any]


def best(
    runs: int,
    *functions: Callable[[], Any] | On,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The smallest time of each function, run in turn in changing order, in seconds.

    A single run is the first one. Else they run `runs` times, and up to five times as often while
    all of it takes less than two seconds: of short times the smallest of a few depends on what else
    the machine does.
    `clock` is `time.thread_time` for what this thread does alone: other processes then count for less.
    """
    times = [float("inf")] * len(functions)
    order, shuffle = [*enumerate(functions)], random.Random(0).shuffle
    gc.collect()
    gc.disable()
    gc.freeze()  # what exists now is not looked at again
    try:
        begin = time.perf_counter()
        for n in range(_MORE * runs if runs > 1 else 1):
            if n >= runs and time.perf_counter() - begin > _SECONDS:
                break
            shuffle(order)
            for i, f in order:
                run = functools.partial(f.run, f.make()) if isinstance(f, On) else f
                gc.collect()  # what the run before left, or this one had to take new memory
                start = clock()
                run()
                times[i] = min(times[i], clock() - start)
    finally:
        gc.unfreeze()
        gc.enable()
    return times


_MORE, _SECONDS = 5, 2.0
alone = functools.partial(best, clock=time.thread_time)  # of what is Python in one thread
