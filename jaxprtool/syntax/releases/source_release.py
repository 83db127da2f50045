"""The release of JAX that printed the texts to read, where the user names it (`--from-dialect`)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.spellings import Release

__all__ = ["printed_by", "read_as", "set_source_release", "source_release"]

_release: ContextVar[Release | None] = ContextVar("release", default=None)
_NAME = pattern(r"jax-(\d{1,4}(?:\.\d{1,4}){1,3})")


def read_as(dialect: str) -> Release | None:
    """Return the release that the name of a dialect means, `jax-0.4.38`, of any age; None for "".

    Raises:
      UsageError: it is no name of a dialect.
    """
    if not dialect:
        return None
    m = _NAME.fullmatch(dialect)
    if m is None:
        message = f"no dialect {dialect!r} to read"
        fail(UsageError, message, "no-dialect", help="name the release of JAX: jax-0.4.38")
    return tuple(map(int, m[1].split(".")))


def set_source_release(release: Release | None) -> Release | None:
    """Set the release as whose texts are read (None: each text is recognised); return the previous setting."""
    before = _release.get()
    _release.set(release)
    return before


def source_release() -> Release | None:
    """Return the release as whose texts are read; None where each is recognised."""
    return _release.get()


@contextmanager
def printed_by(dialect: str) -> Generator[None]:
    """Read texts inside the block as those of the release that a dialect's name means; "" changes nothing."""
    release = read_as(dialect)
    before = set_source_release(source_release() if release is None else release)
    try:
        yield
    finally:
        set_source_release(before)
