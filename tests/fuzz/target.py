"""What a fuzz target is, and how its cases are drawn and run."""

from __future__ import annotations

import importlib
import pkgutil
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz import targets

__all__ = ["Failure", "Target", "all_targets", "run_target"]

MOST_BYTES = 1 << 30  # what a case may need: all of them are small


class Failure(AssertionError):
    """What has to hold does not hold for a case."""


@dataclass(frozen=True)
class Target:
    """A law and the cases that it is tried on.

    Attributes:
      name: for `--only`.
      draw: makes a case from a generator of random numbers, and from nothing else: the seed is enough to make it again.
      check: raises `Failure` (or any exception) where the law does not hold.
      show: the text of a case, for the report of a failure.
    """

    name: str
    draw: Callable[[random.Random], Any]
    check: Callable[[Any], None]
    show: Callable[[Any], str] = str


def _peak() -> int:
    """The most memory that the process has had so far, in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used << 10


def all_targets() -> list[Target]:
    """Every target, in order of names."""
    found = []
    for module in pkgutil.iter_modules(targets.__path__):
        found.append(importlib.import_module(f"{targets.__name__}.{module.name}").TARGET)
    return sorted(found, key=lambda t: t.name)


def run_target(target: Target, seconds: float, seed: int, least: int = 1) -> int:
    """Try a target for a time, on `least` cases or more; case i is drawn with the seed `seed + i`.

    Returns: the number of cases.
    Raises:
      Failure: for the first case that fails, with its seed and its text.
    """
    with warnings.catch_warnings(
        action="ignore"
    ):  # what a text makes the tool warn of is no failure
        return _run(target, seconds, seed, least)


def _run(target: Target, seconds: float, seed: int, least: int) -> int:
    end = time.monotonic() + seconds
    done = 0
    while done < least or time.monotonic() < end:
        case = target.draw(random.Random(seed + done))
        before = _peak()
        try:
            target.check(case)
            if _peak() - before > MOST_BYTES:
                raise Failure(f"it takes {_peak() - before:,} bytes more than the cases before it")
        except Exception as e:
            where = f"python -m tests.fuzz --only {target.name} --seed {seed + done} --cases 1"
            raise Failure(f"{type(e).__name__}: {e}\n  again: {where}\n{target.show(case)}") from e
        done += 1
    return done
