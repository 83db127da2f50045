"""Cut parts out of a text that need not be a valid jaxpr: lines, tokens, the contents of brackets."""

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
    """Return a message without the positions in it, which change as a text gets shorter."""
    return _PLACE.sub("PLACE", message)


def lines_of(text: str) -> list[str]:
    """Split a text into lines; joined they are the text."""
    return text.splitlines(keepends=True)


def tokens_of(text: str) -> list[str]:
    """Split a text into tokens, each with the space before it; joined they are the text, but for space at its end."""
    return _TOKEN.findall(text)


def bracketed(tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Return ranges of tokens to cut at brackets, the last brackets first.

    For each pair: with the word before them (`a:f32[3]`), the brackets with their contents, and the
    contents.
    """
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
    """Return the jaxprs (and other texts in braces) directly inside of a text, the longest first.

    Where the whole text is one in braces, those directly inside of it.
    """
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
    """Return ranges of lines that close the brackets which their first line opens: an equation with
    its params, or a definition.

    The last ranges come first, outer ones before inner ones.
    """
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
    """Return a text without some of its lines, with the variables they bind as arguments of the jaxpr around them.

    Args:
      before: the text before the lines.
      lines: the lines.
      after: the text after them.

    Returns:
      The text; "" where the rest reads nothing that these lines bind, or they are in no jaxpr.
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
    """Return where the binders end of the jaxpr that is open at the end of a text; -1 where none is."""
    depth, end = 0, len(before)
    for m in reversed([*_HEAD_END.finditer(before)]):
        between = before[m.end() : end]
        depth += between.count("}") - between.count("{")
        if depth <= 0:
            return m.start()
        end = m.end()
        depth -= 1  # the brace that opens this jaxpr comes before its head
    return -1
