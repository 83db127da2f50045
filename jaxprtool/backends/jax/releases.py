"""The release of the installed JAX, and the releases that this package supports.

Differences between releases are handled in two places: `private` for names and classes,
`vocabulary` for primitives and their params.
"""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType

import jax

__all__ = ["NEWEST", "VERSION", "first_module", "is_newer", "loaded_modules", "named", "since"]

NEWEST = (0, 12)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 12, 0, 1) of `0.12.0.1.dev20260101`."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[^\d.]", version)[0])))


VERSION = _numbers(jax.__version__)


def since(*numbers: int) -> bool:
    """Whether the installed JAX is of this release or of a later one."""
    return numbers <= VERSION


def is_newer() -> bool:
    """Whether the installed JAX is of a later series than those that this package supports."""
    return VERSION[:2] > NEWEST


def named() -> str:
    """Return a description of the installed JAX, for messages."""
    newer = " is newer than this jaxprtool knows" if is_newer() else ""
    return f"jax {jax.__version__}{newer}"


def first_module(*names: str) -> ModuleType:
    """Return the first of these modules that the installed JAX has.

    Raises:
      ImportError: it has none of them.
    """
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            if not name.startswith(str(e.name)):
                raise
    raise ImportError(f"{named()}: it has no module {' or '.join(names)}")


def loaded_modules() -> list[ModuleType]:
    """The modules of JAX that are loaded."""
    return [m for n, m in list(sys.modules.items()) if n == "jax" or n.startswith("jax.")]
