"""The faults of a text: all of them are collected, and raised when the whole text is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import replace
from operator import attrgetter

from jaxprtool.ir.avals import ARRAY_LIMIT
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError, ScopeError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.spans import Source, Span

__all__ = ["UNBALANCED", "Errors"]

UNBALANCED = "has brackets that do not balance"  # message about the value of a param

_MOST = 200
_START = attrgetter("start")
_OF_TYPES = frozenset({"unbound-variable", "bound-twice", "interface-count", ARRAY_LIMIT})


class Errors:
    """The errors in one text.

    Attributes:
      syntax: errors of a malformed text.
      types: errors of names and types in a well-formed text.
    """

    def __init__(self, source: Source):
        self.source = source
        self.syntax: list[Diagnostic] = []
        self.types: list[Diagnostic] = []

    def add(self, message: str, code: str, start: int, end: int, help: str = "") -> None:
        """Add an error between two offsets."""
        found = self.types if code in _OF_TYPES else self.syntax
        found.append(Diagnostic(message, code, Span(self.source, start, end), help))

    def include(self, inner: Errors) -> None:
        """Add the errors of a part of the text that was read on its own."""
        self.syntax += inner.syntax
        self.types += inner.types

    def give_origins(self, eqns: Iterable[JaxprEqn]) -> None:
        """Give errors of names and types the origins (lines of Python) of the equations that they are in."""
        if not self.types:
            return
        spans = sorted([e.span for e in eqns if e.span is not None], key=_START)
        starts = [span.start for span in spans]
        for i, error in enumerate(self.types):
            at = error.span.start if error.span else -1
            k = bisect_right(starts, at) - 1
            if error.span and k >= 0 and at < spans[k].end:
                self.types[i] = replace(error, span=error.span._replace(origin=spans[k].origin))

    def forgive(self, names: Collection[str]) -> None:
        """Drop errors about missing definitions of names that the text does define, where another
        error hides these definitions.
        """

        def follows(d: Diagnostic) -> bool:
            return d.code == "undefined-jaxpr" and d.span is not None and _text(d.span) in names

        self.syntax = [d for d in self.syntax if not follows(d)] or self.syntax

    def __len__(self) -> int:
        return len(self.syntax) + len(self.types)

    def _causes(self) -> list[Diagnostic]:
        """Return the errors without those that only follow from another.

        Where a bracket swallows the text after it, the names in that text are missing, and the text
        has no end. Malformed parts before the bracket are reported in any case.
        """
        if not any(d.code == "truncated" for d in self.syntax):
            return [*self.syntax, *self.types]
        unbalanced = [_start(d) for d in self.syntax if UNBALANCED in d.message]
        first = min(unbalanced, default=-1)
        before = [d for d in self.syntax if _start(d) < first and d.code != "truncated"]
        return [*before, *[d for d in self.syntax if UNBALANCED in d.message]] or self.syntax

    def raise_all(self, programs: dict[str, ClosedJaxpr]) -> None:
        """Raise the errors, in the order of the text, if there are any.

        Args:
          programs: the programs that were read. Those of a text without errors of syntax are raised
            with its errors of types, since they can be printed.
        """
        errors = sorted(self._causes(), key=_start)
        if not errors:
            return
        if len(errors) > _MOST:
            message = f"{len(errors) - _MOST} more errors like these"
            errors[_MOST:] = [Diagnostic(message, "more", errors[_MOST].span)]
        raise JaxprParseError(errors) if self.syntax else ScopeError(errors, programs)


def _text(span: Span) -> str:
    return span.source.text[span.start : span.end]


def _start(error: Diagnostic) -> int:
    """Return the offset of an error."""
    return error.span.start if error.span else 0
