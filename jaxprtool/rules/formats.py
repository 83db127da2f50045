"""Formatting by format strings that come from a file, and so cannot be trusted.

Python's `str.format` reads attributes and items of values (`{0.__class__}`) and pads to any width
(`{:9999999999d}`), so a file could read internals of the process or exhaust its memory. Here a
field is a name or a position, optionally `!r` or `!s`, and a format of bounded width and precision;
everything else is literal text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from jaxprtool.ir.jaxpr import Value

__all__ = ["format_fields", "print_options"]

# [[fill]align][sign][z][#][0][width][,|_][.precision][type], the numbers of at most three digits
_SPEC = re.compile(
    r"(?:[^{}]?[<>=^])?[-+ ]?z?#?0?(?:\d{1,3})?[,_]?(?:\.\d{1,3})?[bcdeEfFgGnosxX%]?", re.DOTALL
)
_NAME = re.compile(r"[^\W\d]\w*")
_POSITION = re.compile(r"\d{1,6}", re.ASCII)
_MISSING = object()


def format_fields(fmt: str, args: Sequence[Value], named: Mapping[str, Any]) -> str:
    """Return `fmt.format(*args, **named)` for fields that are harmless.

    Any other field is copied as it stands.
    """
    try:
        pieces = [*Formatter().parse(fmt)]
    except ValueError:  # a brace without its partner
        return fmt
    count = 0
    out = []
    for text, field, spec, conversion in pieces:
        out.append(text)
        if field is None:
            continue
        value = _MISSING
        if not field:
            value, count = _at(count, args), count + 1
        elif _POSITION.fullmatch(field):
            value = _at(int(field), args)
        elif _NAME.fullmatch(field):
            value = named.get(field, _MISSING)
        written = _field(value, spec or "", conversion)
        out.append(_as_it_stands(field, spec, conversion) if written is None else written)
    return "".join(out)


def _at(i: int, args: Sequence[Value]) -> Value:
    return args[i] if i < len(args) else _MISSING


def _field(value: Value, spec: str, conversion: str | None) -> str | None:
    """Return a value in a format; None for a format that is not understood."""
    if value is _MISSING or conversion not in (None, "r", "s") or not _SPEC.fullmatch(spec):
        return None
    if conversion is not None:
        value = repr(value) if conversion == "r" else str(value)
    try:
        return format(value, spec)
    except (TypeError, ValueError, OverflowError):  # a format that is not for this type
        return None


def _as_it_stands(field: str, spec: str | None, conversion: str | None) -> str:
    return f"{{{field}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"


# Options of NumPy's printing that a file may choose, and the largest value of those that are numbers.
_NUMBERS = {"edgeitems": 1_000, "threshold": 1 << 62, "precision": 100, "linewidth": 10_000}
_WORDS = {"floatmode": ("fixed", "unique", "maxprec", "maxprec_equal"), "sign": ("-", "+", " ")}


def print_options(pairs: Any) -> dict[str, Any]:
    """Return the valid ones of NumPy's print options in a param, which holds pairs of names and values."""
    if not isinstance(pairs, (tuple, list)):
        return {}
    given = {p[0]: p[1] for p in pairs if isinstance(p, (tuple, list)) and len(p) == 2}
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name in _NUMBERS and type(value) is int and value >= 0:
            chosen[name] = min(value, _NUMBERS[name])
        elif name in _WORDS and value in _WORDS[name]:
            chosen[name] = value
        elif name in ("nanstr", "infstr") and isinstance(value, str):
            chosen[name] = str(value)[:100]
        elif name == "suppress" and isinstance(value, bool):
            chosen[name] = value
    return chosen
