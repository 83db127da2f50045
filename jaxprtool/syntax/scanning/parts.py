"""Where the parts of an equation stand in its text, for messages: found when there is something to say, and not while reading."""

from __future__ import annotations

from jaxprtool.ir.spans import Span
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import IDENT, LOOSE_BINDER

__all__ = ["param_place", "primitive_place"]

_START = pattern(rf"(?:{LOOSE_BINDER}\s++)*+=\s++([^\s\[;]++)|([^\s\[;=]++)(?=[\s\[]|\Z)")
_OPENING = pattern(r"\s*+\[")
_PIECE = pattern(
    rf"[(\[{{]|[)\]}}]|'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"|(?<![\w.])({IDENT})[ \t]*+=(?!=)"
)


def primitive_place(span: Span | None) -> Span | None:
    """Where the name of the primitive stands in an equation; the equation where that cannot be said."""
    if span is None or (m := _START.match(span.source.text, span.start, span.end)) is None:
        return span
    return span._replace(start=m.start(m.lastindex or 0), end=m.end())


def param_place(span: Span | None, key: str) -> Span | None:
    """Where a param stands in an equation, with its value; the equation where the text has no such param."""
    if span is None or (m := _START.match(span.source.text, span.start, span.end)) is None:
        return span
    text = span.source.text
    opening = _OPENING.match(text, m.end(), span.end)
    if opening is None:
        return span
    depth, start = 1, -1
    for piece in _PIECE.finditer(text, opening.end(), span.end):
        at = piece.start()
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if start >= 0 and (depth == 0 or (depth == 1 and piece[1])):
            return span._replace(start=start, end=start + len(text[start:at].rstrip()))
        if depth == 0:
            break
        if depth == 1 and piece[1] == key:
            start = at
    return span
