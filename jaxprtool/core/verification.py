"""Whether jaxprs are checked as they are made (`--verify`)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["set_verify", "verified_if", "verifying"]

_verify = [False]


def set_verify(on: bool) -> bool:
    """Switch the check of every jaxpr that a transformation makes on or off; returns whether it was on."""
    before, _verify[0] = _verify[0], on
    return before


def verifying() -> bool:
    """Whether jaxprs are checked as they are made."""
    return _verify[0]


@contextmanager
def verified_if(able: bool) -> Generator[None]:
    """Inside the block jaxprs are checked where they are outside, if they are `able` to be well-typed."""
    before = set_verify(verifying() and able)
    try:
        yield
    finally:
        set_verify(before)
