"""How the time of something grows, whatever else the machine does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tests.bench.measure import On, best

T = TypeVar("T")
TRIES = 6


def assert_growth(
    prepare: Callable[[int], T],
    run: Callable[[T], object],
    small: int,
    large: int,
    bound: float,
    *,
    floor: float = 1e-3,
) -> None:
    """A run of size `large` takes at most `bound` times as long as one of size `small`, in CPU time of this thread.

    Each run has an argument of its own, made by `prepare`. What disturbs a run only makes it longer, so the shortest of up
    to `TRIES` runs of the large size count, and three times as many of the small one; a square of the size is above the
    bound in all of them.

    small, large:  sizes, in the unit of `prepare`
    floor:         seconds, the least that counts as the time of the small size
    """
    run(prepare(max(small // 20, 1)))  # imports, and first uses
    seconds = {small: float("inf"), large: float("inf")}
    for _ in range(TRIES):
        for size, times in ((small, 3), (large, 1)):
            found = best(times, On(partial(prepare, size), run), clock=time.thread_time)
            seconds[size] = min(seconds[size], *found)
        if seconds[large] <= bound * max(seconds[small], floor):
            return
    raise AssertionError(f"{small}: {seconds[small]:.4f} s, {large}: {seconds[large]:.4f} s")
