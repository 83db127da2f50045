"""Positions of arguments as words: positions, ranges of them and names, `0,2`, `0-3`, `w1,b1`, `params["w"]`."""

from __future__ import annotations

from jaxprtool.syntax.patterns import pattern

__all__ = ["parse_positions"]

_RANGE = pattern(r"(\d+)-(\d+)")
_STEP = r"\[(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\[\]\"']*)\]"
_NAME = pattern(rf"[^\W\d](?:[^,=\s\[]|{_STEP})*")
_PART = pattern(rf"\s*((?:[^,\[]|{_STEP}|\[)*)(?:,|\Z)")
_MOST = 100_000  # most arguments in a range


def parse_positions(text: str) -> tuple[int | str, ...] | None:
    """Return the positions and names that a text lists; None where it is no such list."""
    found: list[int | str] = []
    for part in filter(None, [m[1].strip() for m in _PART.finditer(text)]):
        both = _RANGE.fullmatch(part)
        if both and int(both[1]) <= int(both[2]) < _MOST:
            found += range(int(both[1]), int(both[2]) + 1)
        elif _NAME.fullmatch(part):
            found.append(part)
        else:
            try:
                found.append(int(part))
            except ValueError:
                return None
    return tuple(found)
