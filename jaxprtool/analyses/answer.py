"""The base class of what analyses answer: fields for programs, text for people, one JSON document for scripts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["Answer", "json_number"]


class Answer(ABC):
    """The answer of an analysis; each has its own fields besides.

    `str` of it is what the verb prints; a notebook shows the same.
    """

    __slots__ = ()

    @abstractmethod
    def lines(self) -> Sequence[str]:
        """The answer for people, line by line."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """The answer as one document of plain values, whose keys the help of the verb names."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415 (only notebooks ask for it)

        return f"<pre>{html.escape(str(self))}</pre>"


def json_number(x: Any) -> Any:
    """Return a number for JSON, which has no NaN and no infinity: those become strings, complex numbers pairs."""
    if isinstance(x, complex):
        return [json_number(x.real), json_number(x.imag)]
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return x
