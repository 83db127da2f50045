"""Find where the value of a param ends.

JAX prints `str(value)` with neither quotes nor escapes, so no grammar can describe it. Outside of
its brackets and quotes, a value ends where the next `key=` begins (with blanks around the `=` and a
comma before the key, as people write them), at a comment, at the bracket that closes the params,
and where an equation begins. Free text (the format of a `debug_print`) may contain any of these, so
it ends at the next declared key as JAX writes keys. Layout decides where brackets do not balance,
and for unknown primitives, whose params may be free text too. A value of a known primitive that is
plain text is refused when something with a meaning would be lost in it (`fault`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from jaxprtool.syntax.errors import UNBALANCED
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier import declared_params
from jaxprtool.syntax.tokens import IDENT, LAMBDA, PARENTHESES, WHERE

__all__ = ["ValueScanner", "fault", "free_params", "is_balanced", "name_params"]

_SPECIAL = pattern(
    r"(?P<bracket>[()\[\]{}])|(?P<quote>(?<!\w)['\"])"
    rf"|(?<!\s)\s++(?P<end>{IDENT}[ \t]*+=(?!=)|\#|\]|{IDENT}:(?={IDENT}\[))"
    rf"|(?:(?<!\s)\s++)?+[,;](?=\s*+(?:{IDENT}[ \t]*+=(?!=)|\]|\#))"
)
_SPECIAL_DATA = pattern(r"[()\[\]{}]|(?<!\w)['\"]")
_SCALAR = pattern(rf"[^\s\[\](),;{{}}]++(?:{PARENTHESES})?+|{PARENTHESES}")
_WHERE = pattern(WHERE)
_COMMA = pattern(r"[\[\](){},]")
_LIST = pattern(r"[\[\]{}]")
_ITEM = pattern(rf"\s*+(?:([\[\]])|[\w.+\-]++(?:{PARENTHESES})?+|{PARENTHESES})")
_AFTER_ITEM = pattern(r"\s*+([,\]])")
_FLAT_KEY = pattern(rf"\s({IDENT})=")
_KEY_BELOW = pattern(rf"\n\s*+({IDENT})=")
_KEY_BESIDE = pattern(rf"[ \t]*+({IDENT})=(?!=)")
# The greedy part ends before the last ` ]` of the line.
_CLOSED_LAST = pattern(r"( \][^\n]*\S)(?= \][^\[\]{}()=;,]*\Z) \][^\n]*")
_INDENTED_KEY = pattern(rf" ++{IDENT}=")
_FLAT_END = pattern(r"\](?=[ \n]|\Z)")
_EMPTY = pattern(rf"\s++(?:{IDENT}[ \t]*+=(?!=)|\#|\]|{IDENT}:{IDENT}\[)")
_COMMENT = pattern(r"\s++#")
_SUSPECT = pattern(r"[=()\[\]{}]")
# The one printed object with a `=` in it, to 0.4.30: `<hashable <lambda> with closure=None>`.
_HASHABLE = pattern(
    r"<hashable (?:[^<>\n=]|<[^<>\n=]*>)*? with closure=[^<>\n=\[\]{}]*>(?=\s|\]|\Z)"
)
# It starts at the start of a word: a search from each letter would take quadratic time.
_STRAY = pattern(rf"\b\d*+{IDENT}\s*+:?=")
# A jaxpr, whole or damaged: what is left of `{ lambda ; a:f32[3]. let` without its first words is no value either.
_JAXPR = pattern(rf"{LAMBDA}|\{{[^{{}}'\"]*?\blet\s")
# The name of a class may hold quotes: `<class 'jaxtyping.PyTree[jaxtyping.Shaped[Array, '?*y']]'>`.
_CLASS = "<class "
_CLASS_NAME = pattern(rf"'(?:(?!{_CLASS}')[^\n])*?'(?=>)")
_QUOTED = {q: pattern(rf"{q}(?:[^{q}\\\n]|\\.)*+{q}") for q in "'\""}
_CLOSES = {")": "(", "]": "[", "}": "{"}
_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=256)
def _layout(column: int) -> re.Pattern[str]:
    """Return a pattern for a line break before a key in `column`, a closing bracket two columns
    before it, or an equation there.
    """
    indent = max(column - 2, 0)
    return re.compile(rf"\n(?: {{{column}}}{IDENT}=| {{{indent}}}(?:\]|(?P<equation>{IDENT}:)))")


@lru_cache(maxsize=512)
def free_params(primitive: str) -> frozenset[str]:
    """The params of a primitive that are free text: those whose kind is spelled freely."""
    declared = declared_params(primitive)
    if declared is None:
        return _NONE
    return frozenset(k for k, p in declared.items() if p.kind.spelling == "free")


@lru_cache(maxsize=512)
def name_params(primitive: str) -> frozenset[str]:
    """The params of a primitive that are names of functions: `name`, where it has one."""
    declared = (declared_params(primitive) or {}).get("name")
    return frozenset({"name"} if declared and declared.kind.spelling == "name" else ())


def is_balanced(value: str) -> bool:
    """Whether a value that other params, or the end of them, follow on its line ends by its brackets and quotes."""
    return ValueScanner(f"{value}]").ends_at(len(value))


class ValueScanner:
    """Finds ends of values.

    The time it may spend on unbalanced values is bounded, so it stays linear.
    """

    def __init__(self, text: str):
        self.text = text
        self.budget = 8 * len(text) + 1_000_000
        self.unquoted = {"'": (0, 0), '"': (0, 0)}  # where no quote of this kind is closed

    def value_end(self, column: int, primitive: str, key: str, pos: int) -> int:
        """The offset where the value of `key` that starts at `pos` ends; `column` is -1 in flat layout."""
        if key in free_params(primitive):
            end = self._free_end(column, primitive, pos)
            if end >= 0:
                return end
        end = self._balanced_end(pos) if self.budget > 0 else -1
        if end >= 0 and (m := _KEY_BESIDE.match(self.text, end)):
            end = self._name_end(primitive, key, pos, end, m)
        if column < 0:
            if end >= 0 and declared_params(primitive) is None:
                end = self._last_bracket(pos, end)
            m = None if end >= 0 else _FLAT_END.search(self.text, pos)
            return m.start() if m else end if end >= 0 else len(self.text)
        layout = _layout(column)
        if end >= 0 and (
            declared_params(primitive) is not None
            or layout.match(self.text, end)
            # What spans the end of the params, and goes on to a comment after the operands, does not balance.
            or (_COMMENT.match(self.text, end) and not layout.search(self.text, pos, end))
        ):
            return end
        m = layout.search(self.text, pos)
        if m is not None and not m["equation"]:
            return m.start()
        return end if end >= 0 else self._line_end(pos)

    def _last_bracket(self, pos: int, end: int) -> int:
        """Return the last bracket of a line that closes params of an unknown primitive, where a value seems to
        end at an earlier one, and stands on a line of its own as releases to 0.2.21 write params.

        `text=a=b ] [ x ] c`: only names follow the bracket that closes them.
        """
        line_end = self._line_end(pos)
        begins = self.text.rfind("\n", 0, pos) + 1
        if end >= line_end or not _INDENTED_KEY.fullmatch(self.text, begins, pos):
            return end
        m = _CLOSED_LAST.fullmatch(self.text, end, line_end)
        return end if m is None else m.end(1)

    def _name_end(self, primitive: str, key: str, pos: int, end: int, m: re.Match[str]) -> int:
        """Return the end of a name that stands on a line of its own, as JAX writes params.

        A name may hold what looks like a key (`f.__name__ = "in let=3"`): one that the primitive
        does not have begins no param.
        """
        if key not in name_params(primitive):
            return end
        declared = declared_params(primitive) or ()
        begins = self.text.rfind("\n", 0, pos) + 1
        if _INDENTED_KEY.fullmatch(self.text, begins, pos) is None:
            return end
        found: int = end
        beside: re.Match[str] | None = m
        while beside is not None and beside[1] not in declared:
            found = self._balanced_end(beside.end())
            beside = _KEY_BESIDE.match(self.text, found) if found >= 0 else None
        return found if found >= 0 and beside is None else end

    def ends_at(self, end: int) -> bool:
        """Whether the value at the start of the text ends at an offset by its brackets and quotes."""
        return self._balanced_end(0) == end

    def _line_end(self, pos: int) -> int:
        end = self.text.find("\n", pos)
        return len(self.text) if end < 0 else end

    def _free_end(self, column: int, primitive: str, pos: int) -> int:
        """Return the end of free text, which is only the next declared key; -1 when there is none."""
        if column >= 0:
            ends = (m for m in _layout(column).finditer(self.text, pos) if not m["equation"])
            if m := next(ends, None):
                return m.start()
        declared, line_end = declared_params(primitive) or {}, self._line_end(pos)
        for m in _FLAT_KEY.finditer(self.text, pos, line_end):
            if m[1] in declared:
                return m.start()
        m = _KEY_BELOW.match(self.text, line_end)
        return pos + len(self.text[pos:line_end].rstrip()) if m and m[1] in declared else -1

    def _balanced_end(self, pos: int) -> int:
        """Return the end of a value by its brackets and quotes; -1 where they do not balance."""
        text, at, skip = self.text, pos, pos
        if _EMPTY.match(text, pos):
            return pos
        if text.startswith("<hashable ", pos) and (m := _HASHABLE.match(text, pos)):
            skip = m.end()
        depth: list[str] = []
        for m in _SPECIAL.finditer(text, pos):
            at = m.start()
            if at < skip:
                continue
            kind = m.lastgroup
            if kind == "quote":
                skip = self.quote_end(at)
                continue
            c = text[at]
            if kind != "bracket":
                if not depth:
                    self.budget -= at - pos
                    return at
                if m["end"] != "]":
                    continue
                c = "]"
            if c in "([{":
                depth.append(c)
            elif not depth and c == "]":
                self.budget -= at - pos
                return at
            elif not depth or depth.pop() != _CLOSES[c]:
                break
        self.budget -= at - pos
        return -1

    def quote_end(self, pos: int) -> int:
        """The offset after the closing quote, on this line; `pos + 1` when there is none."""
        quote = self.text[pos]
        if self.text.startswith(_CLASS, max(pos - len(_CLASS), 0)) and (
            m := _CLASS_NAME.match(self.text, pos)
        ):
            return m.end()
        start, end = self.unquoted[quote]
        if start <= pos < end:
            return pos + 1
        m = _QUOTED[quote].match(self.text, pos)
        if m is None:
            self.unquoted[quote] = pos, self._line_end(pos)
            return pos + 1
        return m.end()

    def is_mixed(self, pos: int) -> bool:
        """Whether `({ lambda` begins a tuple with commas: the `str` of one, which holds other values too.

        The same holds where the first jaxpr has definitions of its own, `(let f = { lambda`.
        """
        text, depth, at = self.text, 0, pos
        if text.startswith("(let ", pos):
            return True
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
        return text.startswith(",", self._after_where(at + 1))

    def _after_where(self, pos: int) -> int:
        """Return the offset after the `where` section that begins at `pos`, if one does.

        Commas in it are inside brackets.
        """
        text, depth, at = self.text, 0, pos
        if self.budget <= 0 or not _WHERE.match(text, pos):
            return pos
        for m in _COMMA.finditer(text, pos):
            at = m.start()
            if text[at] in "([{":
                if text[at] == "{":
                    break
                depth += 1
            elif text[at] in ")]}":
                if not depth:
                    break
                depth -= 1
            elif not depth:
                break
        self.budget -= at - pos
        return at

    def data_end(self, pos: int) -> int | None:
        """Return the offset where a constant's value ends (a list, `npz("file", "key")` or a
        scalar); None for a list that does not end.
        """
        text = self.text
        if not text.startswith("[", pos):
            m = _SCALAR.match(text, pos)
            return m.end() if m else None
        depth = 0
        for m in _LIST.finditer(text, pos):
            if m[0] == "[":
                depth += 1
            elif m[0] == "]":
                depth -= 1
                if depth == 0:
                    return m.end()
            else:
                return None
        return None

    def data_fault(self, pos: int) -> int:
        """Return the offset in an unclosed list of numbers where it stops being one."""
        pattern, at = _ITEM, pos
        while m := pattern.match(self.text, at):
            pattern, at = _ITEM if m[1] in ("[", ",") else _AFTER_ITEM, m.end()
        return at


def fault(text: str, jaxprs: bool = False, keys: bool = False) -> str:
    """Return what is wrong with a value that is plain text, in words; "" where it is acceptable.

    Such a value must contain no `key=` unless it may hold `keys` after blanks, and no jaxpr unless it may show
    `jaxprs`: they would be lost in it. Its brackets must balance, so that its end is found again.
    """
    word = text.strip()
    if word and (word[0] in ",;" or word[-1] in ",;"):
        return "has a separator that separates nothing"
    if word.startswith("="):
        return "begins with `=`"
    if not _SUSPECT.search(text) or _HASHABLE.fullmatch(word):
        return ""
    depth: list[str] = []
    inside = ValueScanner(text)
    pieces: list[str] = []
    at = skip = 0
    for m in _SPECIAL_DATA.finditer(text):
        start, c = m.start(), m[0]
        if start < skip:
            continue
        if not depth:
            pieces.append(text[at:start])
        if c in "'\"":
            skip = inside.quote_end(start)
        elif c in "([{":
            if c == "{" and not jaxprs and _JAXPR.match(text, start):
                return "holds a jaxpr that cannot be read"
            depth.append(c)
        elif not depth or depth.pop() != _CLOSES[c]:
            return UNBALANCED
        at = max(m.end(), skip)
    if depth:
        return UNBALANCED
    pieces.append(text[at:])
    for piece in pieces:
        for m in _STRAY.finditer(piece):
            as_key = m[0].endswith("=") and m[0][:-1].isidentifier()
            as_key = as_key and piece[: m.start()][-1:].isspace()
            if not (keys and as_key and not piece.startswith("=", m.end())):
                return f"holds `{m[0]}`"
    return ""
