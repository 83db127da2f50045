"""Trees as words of the command line: `{"w": x.npy, "b": zeros}`, `(0, -)`, and which part of a tree each word is for.

    value = word | string | "(" values ")" | "[" values "]" | "{" (key ":" value ",")* "}"
          | Class "(" ((name "=")? value ",")* ")" | Class "{" (key ":" value ",")* "}"

A key is a quoted string or a bare word; a word is whatever holds no blank, comma, bracket or quote. JSON is of this form, and
so is the interface of a program with words for its leaves. The names of classes say nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard

from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.interface import MAX_DEPTH, Part, Tree
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.synonyms import close_names
from jaxprtool.syntax.patterns import pattern

__all__ = ["WordTree", "is_node", "parse_value", "spread"]

# A word; or a list, a tuple or a dict of such values.
WordTree = str | Sequence[Any] | Mapping[str, Any]
_TOKEN = pattern(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<mark>[()\[\]{},])|(?P<word>[^\s()\[\]{},\"']+))"
)
_KEY = pattern(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s()\[\]{},:=\"']+))\s*[:=]")
_FIELD = pattern(r"\s*([^\W\d]\w*)\s*=(?!=)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NOTHING = ("None", "null")


def parse_value(text: str, what: str) -> Any:
    """Return the value that a text spells.

    Args:
      text: the text.
      what: its name in messages.

    Raises:
      UsageError: with the position in the text.
    """
    return _Reader(text, what).whole()


class _Reader:
    """A text and the position up to which it is read."""

    def __init__(self, text: str, what: str):
        self.text, self.source, self.pos = text, Source(text, what), 0

    def fail(self, start: int, message: str, help: str = "") -> NoReturn:
        span = Span(self.source, start, start + 1)
        fail(UsageError, message, "bad-value", span=span, help=help)

    def next(self) -> tuple[str, str, int]:
        """Return kind, text and start of the next token; kind is "" at the end."""
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            start = len(self.text) - len(self.text[self.pos :].lstrip())
            if start < len(self.text):
                self.fail(start, "the quote is not closed")
            return "", "", len(self.text)
        self.pos = m.end()
        kind = m.lastgroup or ""
        return kind, m[kind], m.start(kind)

    def whole(self) -> WordTree:
        value = self.value(0)
        kind, found, start = self.next()
        if kind:
            self.fail(start, f"unexpected {found!r} after the value")
        return value

    def value(self, depth: int) -> WordTree:
        kind, text, start = self.next()
        if depth > MAX_DEPTH:
            self.fail(start, "nested too deeply")
        if kind == "string":
            return _unquoted(text)
        if (
            kind == "word"
            and text.isidentifier()
            and self.text[self.pos : self.pos + 1] in ("(", "{")
        ):
            self.pos += 1
            is_dict = self.text[self.pos - 1] == "{"
            return self.pairs(start, depth) if is_dict else self.members(start, depth)
        if kind == "word":
            return text
        if text == "{":
            return self.pairs(start, depth)
        if text in _CLOSING:
            items = self.items(text, start, depth)
            return items if text == "[" else tuple(items)
        self.fail(start, f"a value was expected, not {text!r}" if kind else "a value was expected")

    def separator(self, opening: str, start: int) -> bool:
        """Whether a further item may follow: there was a comma, and not the closing bracket."""
        kind, text, at = self.next()
        if text == _CLOSING[opening]:
            return False
        if text != "," and kind:
            self.fail(at, f"',' or {_CLOSING[opening]!r} was expected")
        if not kind:
            self.fail(start, f"this {opening!r} is never closed")
        return not self.closes(opening)

    def closes(self, opening: str) -> bool:
        pos = self.pos
        if self.next()[1] == _CLOSING[opening]:
            return True
        self.pos = pos
        return False

    def items(self, opening: str, start: int, depth: int) -> list[WordTree]:
        values: list[WordTree] = []
        more = not self.closes(opening)
        while more:
            values.append(self.value(depth + 1))
            more = self.separator(opening, start)
        return values

    def members(self, start: int, depth: int) -> WordTree:
        """Read the arguments of a class; they are a dict where all have names."""
        found: list[tuple[str, WordTree]] = []
        more = not self.closes("(")
        while more:
            m = _FIELD.match(self.text, self.pos)
            self.pos = m.end() if m else self.pos
            found.append((m[1] if m else "", self.value(depth + 1)))
            more = self.separator("(", start)
        named = dict(found)
        whole = found and len(named) == len(found) and "" not in named
        return named if whole else tuple([value for _, value in found])

    def pairs(self, start: int, depth: int) -> dict[str, WordTree]:
        found: dict[str, WordTree] = {}
        more = not self.closes("{")
        while more:
            m = _KEY.match(self.text, self.pos)
            if m is None:
                at = len(self.text) - len(self.text[self.pos :].lstrip())
                self.fail(min(at, len(self.text)), "a key and ':' were expected")
            key = m[3] if m[3] is not None else _unquoted(f'"{m[1] if m[1] is not None else m[2]}"')
            if key in found:
                self.fail(m.start(), f"the key {key} occurs twice")
            self.pos = m.end()
            found[key] = self.value(depth + 1)
            more = self.separator("{", start)
        return found


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def is_node(value: object) -> TypeGuard[Sequence[Any] | Mapping[str, Any]]:
    """Whether a value has parts."""
    return isinstance(value, (list, tuple, Mapping))


def spread(
    part: Part, value: WordTree | int | None, name: str, option: str, *, whole: bool
) -> Iterator[tuple[Part, str, Any]]:
    """Yield the part of a tree for which each word of a value is, with the name of that part.

    Args:
      part: the tree, and the position of its first leaf.
      value: a word is for all leaves of its part; lists may be the value of one leaf. A caller in
        Python may give an axis (an int or None) in the place of a word.
      name: the name of the part.
      option: the option that the value belongs to, for messages.
      whole: whether the value of a dict has to have all its keys.

    Yields:
      The part, its name, and a word; or for a leaf the list or tuple that stands for it.

    Raises:
      UsageError: the value has another structure than the tree.
    """
    tree = part.tree
    if not is_node(value) or (tree.kind == "leaf" and not isinstance(value, Mapping)):
        if tree.size or value not in _NOTHING:
            yield part, name, value
        return
    if isinstance(value, Mapping):
        values = _by_key(tree, value, name, option, whole)
    else:
        values = _by_position(tree, value, name, option)
    start = part.start
    for i, (step, child) in enumerate(zip(tree.steps(), tree.children, strict=True)):
        if i in values:
            below = Part(start, child)
            yield from spread(below, values[i], name + step, option, whole=whole)
        start += child.size


def _by_key(
    tree: Tree, value: Mapping[Any, WordTree], name: str, option: str, whole: bool
) -> dict[int, WordTree]:
    """Return the value of each child that has one, by position, where values are given by key."""
    if tree.kind not in ("dict", "object") or None in tree.keys:
        _refuse(tree, name, option, "a dict")
    known = {str(k): i for i, k in enumerate(tree.keys)}
    for key in value:
        if str(key) not in known:
            near = close_names(str(key), known)
            what = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            message = f"{option}: {name} has no {key}"
            fail(UsageError, message, "bad-value", help=what)
    given = {known[str(key)]: v for key, v in value.items()}
    missing = [k for k, i in known.items() if i not in given and tree.children[i].size]
    if whole and missing:
        message = f"{option}: {name} is given without {' and '.join(missing)}"
        fail(UsageError, message, "bad-value", help=f"it is {tree}")
    return given


def _by_position(
    tree: Tree, value: Sequence[WordTree], name: str, option: str
) -> dict[int, WordTree]:
    n = len(tree.children)
    if tree.kind in ("none", "dict") or not isinstance(value, (list, tuple)):
        _refuse(tree, name, option, "a list")
    if len(value) != n:
        have = f"{len(value)} {'is' if len(value) == 1 else 'are'} given"
        message = f"{option}: {name} has {counted(n, 'part')}, and {have}"
        fail(UsageError, message, "bad-value", help=f"it is {tree}")
    return dict(enumerate(value))


def _refuse(tree: Tree, name: str, option: str, got: str) -> NoReturn:
    what = "one array" if tree.kind == "leaf" else str(tree)
    fail(UsageError, f"{option}: {name} is {what}, and {got} is given", "bad-value")
