"""Where the value of a param ends.

JAX prints `str(value)` with neither quotes nor escapes, so no grammar can say it. The rules, in this order: balanced
brackets and quotes up to the next key or the closing bracket in its column (block layout) or on
the line (flat layout); layout alone where the brackets do not balance.
"""

from __future__ import annotations

import re
from functools import lru_cache

from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.syntax.tokens import IDENT

__all__ = ["ValueScanner", "is_key"]

_SPECIAL_BLOCK = re.compile(r"[()\[\]{}]|(?<!\w)['\"]|\n")
_SPECIAL_FLAT = re.compile(rf"[()\[\]{{}}]|(?<!\w)['\"]|\s++({IDENT})=")
_SPECIAL_DATA = re.compile(r"[()\[\]{}]|(?<!\w)['\"]")
_SCALAR = re.compile(r"[^\s\[\](),;{}]++(?:\([^()\n]*+\))?+|\([^()\n]*+\)")
_LOOSE = re.compile(rf"\s*+(?:{IDENT}=|\])")
_FLAT_END = re.compile(r"\](?=[ \n]|\Z)")
_CLOSES = {")": "(", "]": "[", "}": "{"}


@lru_cache(maxsize=256)
def _follows(column: int) -> re.Pattern[str]:
    """A line break, then a key in `column` or the closing bracket two before it."""
    return re.compile(rf"\n(?: {{{column}}}{IDENT}=| {{{max(column - 2, 0)}}}\])")


@lru_cache(maxsize=256)
def _layout(column: int) -> re.Pattern[str]:
    """As `_follows`, or the equation after this one, which a value cannot run past."""
    indent = max(column - 2, 0)
    return re.compile(rf"\n(?: {{{column}}}{IDENT}=| {{{indent}}}(?:\]|({IDENT}:)))")


def is_key(primitive: str, previous: str, key: str) -> bool:
    """Whether `key=` after a blank begins a param, or belongs to the value of `previous`.

    Params are printed sorted by name, but for a `name` that comes first and for the primitives with
    CamelCase names; a declared param is one in any place.
    """
    declared = PRIMITIVES.get(primitive)
    if declared is not None and (key in declared.params or previous == "name"):
        return key in declared.params
    return key >= previous or previous == "name" or primitive[:1].isupper()


def are_beside(primitive: str, previous: str, key: str) -> bool:
    """Whether `key=` on a line in block layout begins a param: a declared one, and `previous` is no text."""
    declared = PRIMITIVES.get(primitive)
    if declared is None or key not in declared.params:
        return False
    return previous not in declared.params or "str" not in declared.params[previous].annotation


class ValueScanner:
    """Finds ends of values. What it may spend on unbalanced values is bounded, so it stays linear."""

    def __init__(self, text: str):
        self.text = text
        self.budget = 8 * len(text) + 1_000_000

    def value_end(self, column: int, primitive: str, key: str, pos: int) -> int:
        """The offset where the value that starts at `pos` ends; `column` is -1 in flat layout."""
        if column < 0:
            return self._flat_end(primitive, key, pos)
        return self._block_end(column, pos)

    def _block_end(self, column: int, pos: int) -> int:
        text, follows = self.text, _follows(column)
        line_end = text.find("\n", pos)
        line_end = len(text) if line_end < 0 else line_end
        if follows.match(text, line_end) and self._is_balanced(pos, line_end):
            return line_end
        loose = -1
        if self.budget > 0:
            end, loose = self._balanced_block_end(follows, pos)
            if end >= 0:
                return end
        m = _layout(column).search(text, pos)
        if m and not m[1]:
            return m.start()
        if loose >= 0:
            return loose
        return line_end

    def _is_balanced(self, pos: int, end: int) -> bool:
        value = self.text[pos:end]
        return (
            value.count("(") == value.count(")")
            and value.count("[") == value.count("]")
            and value.count("{") == value.count("}")
        )

    def _balanced_block_end(self, follows: re.Pattern[str], pos: int) -> tuple[int, int]:
        """(the end where layout and balance agree, the end by balance alone), -1 for none."""
        text, depth, loose, skip = self.text, [], -1, pos
        at = pos
        for m in _SPECIAL_BLOCK.finditer(text, pos):
            at = m.start()
            c = text[at]
            if at < skip:
                continue
            if c in "([{":
                depth.append(c)
            elif c in "'\"":
                skip = self._quote_end(at)
            elif c == "\n":
                if not depth:
                    if follows.match(text, at):
                        self.budget -= at - pos
                        return at, loose
                    if loose < 0 and _LOOSE.match(text, at):
                        loose = at
            elif not depth or depth.pop() != _CLOSES[c]:
                if c == "]" and not depth and loose < 0:
                    loose = at
                break
        self.budget -= at - pos
        return -1, loose

    def _quote_end(self, pos: int) -> int:
        """The offset after the closing quote, on this line; `pos + 1` when there is none."""
        text, quote = self.text, self.text[pos]
        line_end = text.find("\n", pos)
        end = text.find(quote, pos + 1, line_end if line_end >= 0 else len(text))
        while end > 0 and text[end - 1] == "\\" and end - pos > 1:
            end = text.find(quote, end + 1, line_end if line_end >= 0 else len(text))
        return end + 1 if end >= 0 else pos + 1

    def _flat_end(self, primitive: str, key: str, pos: int) -> int:
        text, skip, at = self.text, pos, pos
        depth: list[str] = []
        for m in _SPECIAL_FLAT.finditer(text, pos) if self.budget > 0 else ():
            at = m.start()
            if at < skip:
                continue
            c = text[at]
            if m[1]:
                if not depth and is_key(primitive, key, m[1]):
                    return at
            elif c in "([{":
                depth.append(c)
            elif c in "'\"":
                skip = self._quote_end(at)
            elif not depth and c == "]":
                self.budget -= at - pos
                return at
            elif not depth or depth.pop() != _CLOSES[c]:
                break
        self.budget -= at - pos
        m = _FLAT_END.search(text, pos)
        return m.start() if m else len(text)

    def is_mixed(self, pos: int) -> bool:
        """Whether `({ lambda` begins a tuple with commas: `str` of one, which holds other values too."""
        text, depth, at = self.text, 0, pos
        if not text.startswith("({", pos):
            return False
        for m in _SPECIAL_DATA.finditer(text, pos + 1) if self.budget > 0 else ():
            at = m.start()
            if text[at] in "([{":
                depth += 1
            elif text[at] in ")]}":
                depth -= 1
                if depth <= 0:
                    break
        self.budget -= at - pos
        return text.startswith(",", at + 1)

    def data_end(self, pos: int) -> int | None:
        """The offset where a constant's value ends: a list, `npz("file", "key")` or a scalar."""
        text = self.text
        if not text.startswith("[", pos):
            m = _SCALAR.match(text, pos)
            return m.end() if m else None
        depth, skip = 0, pos
        for m in _SPECIAL_DATA.finditer(text, pos):
            at = m.start()
            if at < skip:
                continue
            if text[at] in "'\"":
                skip = self._quote_end(at)
            elif text[at] in "([{":
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    return at + 1
        return None
