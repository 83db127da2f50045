"""Find the positions of the parts of an equation in its text, for messages; done on demand, and not while reading."""

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
    """Return the span of the primitive's name in an equation; that of the equation where the name is not found."""
    if span is None or (m := _START.match(span.source.text, span.start, span.end)) is None:
        return span
    return span._replace(start=m.start(m.lastindex or 0), end=m.end())


def param_place(span: Span | None, key: str) -> Span | None:
    """Return the span of a param in an equation, with its value; that of the equation where the
    text lacks the param.
    """
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
