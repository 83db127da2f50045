"""The switch of `--verify`: whether every jaxpr is checked when it is made."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from jaxprtool.ir.contexts import holding

__all__ = ["set_verify", "verified_if", "verifying"]

_verify: ContextVar[bool] = ContextVar("verify", default=False)


def set_verify(on: bool) -> bool:
    """Switch the check of every jaxpr that a transformation makes on or off, in the current thread;
    returns whether it was on.
    """
    before = verifying()
    _verify.set(on)
    return before


def verifying() -> bool:
    """Whether every jaxpr is checked when it is made."""
    return _verify.get()


def verified_if(able: bool) -> AbstractContextManager[None]:
    """Switch the check off inside the block unless jaxprs are `able` to be well-typed there."""
    return holding(_verify, verifying() and able)
