"""A limit on time for work that is done in rounds."""

from __future__ import annotations

import math
import time

__all__ = ["Clock"]


class Clock:
    """Tells whether another round still ends in time, if it takes as long as those before on the average.

    A round cannot be stopped, so the last one is not begun where it would most likely end too late.

    Attributes:
      end: when the time is up, as `time.monotonic` gives it; infinite for no limit.
    """

    def __init__(self, seconds: float | None):
        """Begin now; None is no limit."""
        self.begin = time.monotonic()
        self.end = math.inf if seconds is None else self.begin + seconds

    def taken(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.begin

    def has_room(self, spent: float, rounds: int) -> bool:
        """Whether a round ends in time where so many took so many seconds; with none it begins before the end."""
        return time.monotonic() + (spent / rounds if rounds else 0.0) < self.end
