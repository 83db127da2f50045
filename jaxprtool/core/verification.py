"""Whether jaxprs are checked as they are made (`--verify`)."""

from __future__ import annotations

__all__ = ["set_verify", "verifying"]

_verify = [False]


def set_verify(on: bool) -> bool:
    """Switch the check of every jaxpr that a transformation makes on or off; returns whether it was on."""
    before, _verify[0] = _verify[0], on
    return before


def verifying() -> bool:
    """Whether jaxprs are checked as they are made."""
    return _verify[0]
