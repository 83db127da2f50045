"""Words of options that several verbs read."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["numbers"]


def numbers(option: str, text: str | None) -> list[int]:
    """The numbers in `8,16,32`; [] for None. Raises UsageError."""
    words = [w.strip() for w in text.split(",")] if text else []
    if not all(w.isdecimal() and w.isascii() and len(w) < 19 for w in words):
        message = f"{option} {text}: numbers, with commas between them, are expected"
        fail(UsageError, message, "option", help=f"{option} 8,16,32")
    return [int(w) for w in words]
