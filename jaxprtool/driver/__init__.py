"""The verbs as functions of texts or programs: one module for each, and packages of shared code.

A module that few runs of a verb need is imported on first use: `driver.trace.tracer`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxprtool.driver import dialects as dialects
    from jaxprtool.driver import fix as fix
    from jaxprtool.driver import trace as trace
    from jaxprtool.driver import typing as typing
    from jaxprtool.driver import verify as verify
    from jaxprtool.driver.words import values as values

_LAZY = {
    "dialects": "dialects",
    "fix": "fix",
    "trace": "trace",
    "typing": "typing",
    "values": "words.values",
    "verify": "verify",
}


def __getattr__(name: str) -> Any:
    """A module of the package."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{_LAZY[name]}")
