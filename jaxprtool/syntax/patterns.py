"""Regular expressions that are compiled on first use: the start of the program needs few of them."""

from __future__ import annotations

import re
from typing import Any, Protocol, cast

__all__ = ["BLANK", "GAP", "Everywhere", "everywhere", "pattern"]

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")


class _Compiled:
    """Has the methods of a compiled pattern as attributes."""


class _Uncompiled(_Compiled):
    """Becomes a `_Compiled` on first access to a method."""

    def __init__(self, source: str, flags: int):
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"a pattern has no {name}")
        compiled = re.compile(self._source, self._flags)
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        self.__class__ = _Compiled  # type: ignore[assignment]  # lookups in classes with `__getattr__` are slow
        return getattr(compiled, name)


class Everywhere(Protocol):
    """A pattern that matches at every position of every text, if only the empty string."""

    def match(self, string: str, pos: int = 0, endpos: int = ...) -> re.Match[str]: ...


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a lazy `re.compile`; the result has the methods of a pattern but `subn`, and none of its attributes."""
    return cast("re.Pattern[str]", _Uncompiled(source, flags))


def everywhere(source: str) -> Everywhere:
    """Return a `pattern` of which every part is optional."""
    return cast("Everywhere", _Uncompiled(source, 0))


BLANK = everywhere(r"\s*+")
GAP = everywhere(r"[\s;]*+")  # what separates equations
