"""Numbers in answers for people and scripts, however large."""

from __future__ import annotations

from typing import Any

__all__ = ["json_count", "plain_number"]

_MOST_BITS = 300  # nested jaxprs that each use another one twice are used 2^n times


def plain_number(x: float) -> str:
    """Return a number for people: `1,234`, `0.25`, `1.5e+30`, `more than 2^300`."""
    if isinstance(x, int):
        return f"{x:,}" if x.bit_length() < _MOST_BITS else f"more than 2^{x.bit_length() - 1}"
    if x == int(x) and abs(x) < 1e15:
        return f"{int(x):,}"
    return f"{x:.6g}"


def json_count(x: float | None) -> Any:
    """Return a number for JSON; one of too many digits in words."""
    return x if not isinstance(x, int) or x.bit_length() < _MOST_BITS else plain_number(x)
