"""Parts that can be taken out of a text, whether or not it is a jaxpr: lines, tokens, what brackets hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxprtool.syntax.patterns import pattern

__all__ = [
    "balanced_lines",
    "braced",
    "bracketed",
    "lines_of",
    "tokens_of",
    "with_binders",
    "without_places",
]

_TOKEN = pattern(r"\s*(?:\.\s*let\b|[^\s()\[\]{},;=]+|\S)")
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_BINDERS = pattern(r"[ \t]*((?:[^\s:=]+:[^\s=]+ +)+)= ")
_BINDER = pattern(r"([^\s:]+):\S+")
_HEAD_END = pattern(r" ?\. let\b")
_BRACE = pattern(r"[{}]")
_PLACE = pattern(r"[^\s:()]+:\d+(?::\d+)?")


def without_places(message: str) -> str:
    """A message without the places that it names, which change as a text gets shorter."""
    return _PLACE.sub("PLACE", message)


def lines_of(text: str) -> list[str]:
    """The lines of a text; together they are the text."""
    return text.splitlines(keepends=True)


def tokens_of(text: str) -> list[str]:
    """The tokens of a text with the space before them; together they are the text, but for space at its end."""
    return _TOKEN.findall(text)


def bracketed(tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
    """What is in brackets among tokens, as ranges: with the word before them (`a:f32[3]`), alone, without them; the last ones first."""
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for i, token in enumerate(tokens):
        mark = token[-1]
        if mark in _OPEN:
            opened.append(i)
        elif mark in _CLOSE and opened:
            start = opened.pop()
            found += [(max(start - 1, 0), i + 1), (start, i + 1), (start + 1, i)]
    return iter(sorted(found, key=lambda r: (-r[1], r[0])))


def braced(text: str) -> list[str]:
    """The jaxprs (and other texts in braces) directly inside of a text, or of the one that the whole text is; the longest first."""
    opened: list[int] = []
    found: list[tuple[int, int, int]] = []
    for m in _BRACE.finditer(text):
        if m[0] == "{":
            opened.append(m.start())
        elif opened:
            start = opened.pop()
            found.append((len(opened), start, m.end()))
    whole = any(start == 0 and end == len(text.rstrip()) for _, start, end in found)
    inside = [text[start:end] for depth, start, end in found if depth == whole]
    return sorted(dict.fromkeys(inside), key=len, reverse=True)


def balanced_lines(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Lines that hold what the first of them opens, an equation with its params or a definition, as ranges; the last first, the outer before the inner."""
    opened: list[tuple[int, int]] = []
    found: list[tuple[int, int]] = []
    depth = 0
    for i, line in enumerate(lines):
        before = depth
        depth += sum(map(line.count, _OPEN)) - sum(map(line.count, _CLOSE))
        while opened and depth <= opened[-1][1]:
            found.append((opened.pop()[0], i + 1))
        if depth > before:
            opened.append((i, before))
    return iter(sorted(found, key=lambda r: (-r[1], r[0])))


def with_binders(before: str, lines: Sequence[str], after: str) -> str:
    """A text without some of its lines, where what they bind are arguments of the jaxpr around them.

    Args:
      before, lines, after: the text.

    Returns:
      The text; "" where nothing that the rest reads is bound in these lines, or they are in no jaxpr.
    """
    declared = [m[1] for m in map(_BINDERS.match, lines) if m]
    binders = {b[1]: b[0] for text in declared for b in _BINDER.finditer(text)}
    read = {token.strip() for token in tokens_of(after)}
    wanted = [text for name, text in binders.items() if name in read]
    at = _head_around(before)
    if not wanted or at < 0:
        return ""
    return f"{before[:at]} {' '.join(wanted)}{before[at:]}{after}"


def _head_around(before: str) -> int:
    """Where the binders end of the jaxpr that is open at the end of a text; -1 where none is."""
    depth, end = 0, len(before)
    for m in reversed([*_HEAD_END.finditer(before)]):
        between = before[m.end() : end]
        depth += between.count("}") - between.count("{")
        if depth <= 0:
            return m.start()
        end = m.end()
        depth -= 1  # the brace that opens this jaxpr stands before its head
    return -1
