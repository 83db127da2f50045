"""Draws from texts that do not depend on which other texts there are: a new case file leaves the cases of the others."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["choose", "digest", "generators"]

T = TypeVar("T")
_MASK = 2**64 - 1


@functools.cache
def digest(text: str) -> int:
    """64 bits of a text, the same in every run."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def choose(rng: random.Random, among: Sequence[T], text: Callable[[T], str] = str) -> T:
    """One of some texts, or of things that have a text each.

    Each text gets a number from its content and the generator, and the highest is drawn. One more text is drawn for its
    share of the generators, and all others draw what they drew before.
    """
    factor = rng.getrandbits(64) | 1
    return max(among, key=lambda x: digest(text(x)) * factor & _MASK)


def generators(text: str, count: int) -> list[random.Random]:
    """This number of generators for a text, which depend on its content alone."""
    return [random.Random(f"{digest(text)} {i}") for i in range(count)]
