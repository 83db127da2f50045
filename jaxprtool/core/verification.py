"""The switch of `--verify`: whether every jaxpr is checked when it is made."""

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
    """Whether every jaxpr is checked when it is made."""
    return _verify[0]


@contextmanager
def verified_if(able: bool) -> Generator[None]:
    """Switch the check off inside the block unless jaxprs are `able` to be well-typed there."""
    before = set_verify(verifying() and able)
    try:
        yield
    finally:
        set_verify(before)
