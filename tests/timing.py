"""How the time of something grows, whatever else the machine does meanwhile."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TRIES = 6


def seconds(run: Callable[[T], object], argument: T) -> float:
    """CPU seconds that this thread takes for one run, without searches for garbage."""
    gc.collect()
    gc.disable()
    start = time.thread_time()
    try:
        run(argument)
        return time.thread_time() - start
    finally:
        gc.enable()


def assert_growth(
    prepare: Callable[[int], T],
    run: Callable[[T], object],
    small: int,
    large: int,
    bound: float,
    *,
    floor: float = 1e-3,
) -> None:
    """A run of size `large` takes at most `bound` times as long as one of size `small`.

    Each run has an argument of its own, made by `prepare`. What disturbs a run only makes it longer, so the
    shortest of up to `TRIES` runs of each size count; a square of the size is above the bound in all of them.

    small, large:  sizes, in the unit of `prepare`
    floor:         seconds, the least that counts as the time of the small size
    """
    run(prepare(max(small // 20, 1)))  # imports, and first uses
    least, most = float("inf"), float("inf")
    for _ in range(TRIES):
        least = min(least, *(seconds(run, prepare(small)) for _ in range(3)))
        most = min(most, seconds(run, prepare(large)))
        if most <= bound * max(least, floor):
            return
    raise AssertionError(f"{small}: {least:.4f} s, {large}: {most:.4f} s, {most / least:.1f} times")
