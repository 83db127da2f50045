"""Numbers that users give as options: tolerances, seconds, lists of sizes."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["check_not_negative", "numbers"]


def check_not_negative(**numbers: float | None) -> None:
    """Raise UsageError for a number that is negative or a NaN, by its name; None stands for a
    number that is not given.
    """
    for name, x in numbers.items():
        if x is not None and not x >= 0:
            fail(UsageError, f"{name} is a number from 0 on, and not {x}", "option")


def numbers(option: str, text: str | None) -> list[int]:
    """The numbers in `8,16,32`; [] for None. Raises UsageError."""
    words = [w.strip() for w in text.split(",")] if text else []
    if not all(w.isdecimal() and w.isascii() and len(w) < 19 for w in words):
        message = f"{option} {text}: numbers, with commas between them, are expected"
        fail(UsageError, message, "option", help=f"{option} 8,16,32")
    return [int(w) for w in words]
