"""Numbers that users give as options: tolerances, seconds."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["check_not_negative"]


def check_not_negative(**numbers: float | None) -> None:
    """Raise UsageError for a number that is negative or a NaN, by its name; None stands for one that is not given."""
    for name, x in numbers.items():
        if x is not None and not x >= 0:
            fail(UsageError, f"{name} is a number from 0 on, and not {x}", "option")
