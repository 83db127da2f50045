"""Refuse numbers of thousands of digits: Python takes quadratic time to convert them, and so does not."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.patterns import pattern

__all__ = ["MOST_DIGITS", "check_numbers", "long_number"]

MOST_DIGITS = 4000  # Python's own limit is 4,300, unless somebody has changed it
_LONG = pattern(rf"(?<![\d_])[\d_]{{{MOST_DIGITS + 1}}}")
_SAMPLED = pattern(r"[\d_]{16}")  # a long number, in a text reduced to every 250th character


def long_number(text: str) -> int | None:
    """Return where the first number of more than `MOST_DIGITS` digits begins in a text; None where there is none."""
    if not _SAMPLED.search(text[:: MOST_DIGITS // 16]):
        return None
    found = _LONG.search(text)
    return None if found is None else found.start()


def check_numbers(source: Source) -> None:
    """Raise JaxprParseError for a text with a number of more than `MOST_DIGITS` digits, even in a comment."""
    start = long_number(source.text)
    if start is not None:
        span = Span(source, start, start + 1)
        message = f"a number of more than {MOST_DIGITS:,} digits"
        raise JaxprParseError(Diagnostic(message, "bad-literal", span))
