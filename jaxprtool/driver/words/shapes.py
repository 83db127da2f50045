"""Types of arguments as the command line spells them: `f32[3,4]`, `{"w": f32[3,4], "b": f32[4]}`, `(f32[3], i32[])`.

    value = type | "None" | "(" values ")" | "[" values "]" | "{" (key ":" value ",")* "}"
          | Class "(" values, (name "=" value ",")* ")"

A class is one that the function's module knows, registered as a pytree; what it is called with may also be numbers,
strings, `True` and `False`, for fields that are no arrays. A key is a quoted string, a bare name or a number; a type is one as jaxprs spell it, or with its long name
(`float32[3,4]`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.synonyms import dtype_meant
from jaxprtool.syntax.patterns import pattern

__all__ = ["parse_shape"]

_TOKEN = pattern(
    r"\s*(?:(?P<type>[A-Za-z]\w*(?:<\w+>)?\s*\[[^\[\]]*\]?)"
    r"|(?P<string>\"[^\"]*\"|'[^']*')|(?P<word>[+-]?[\w.]+)|(?P<mark>[()\[\]{},:=]))"
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LITERALS = {"True": True, "False": False, "true": True, "false": False}
_MAX_DEPTH = 200


Classes = Callable[[str], type | None]


def parse_shape(text: str, what: str = "--shape", classes: Classes = lambda name: None) -> Any:
    """Return the pytree of types that a text spells.

    Args:
      text: the text.
      what: its name in messages.
      classes: returns the class that a name means; None for none.

    Returns:
      A `ShapedArray`, or tuples, lists, dicts, None and objects of classes that hold them.

    Raises:
      UsageError: with the position in the text.
    """
    reader = _Reader(text, what, classes)
    value = reader.value(0)
    kind, found, start = reader.next()
    if kind:
        several = "the types of several arguments are given as --shape A --shape B"
        reader.fail(start, start + len(found), f"unexpected {found!r} after the type", several)
    return value


class _Reader:
    """A text and the position up to which it is read."""

    def __init__(self, text: str, what: str, classes: Classes):
        self.text, self.source, self.pos = text, Source(text, what), 0
        self.classes = classes

    def fail(self, start: int, end: int, message: str, help: str = "") -> NoReturn:
        span = Span(self.source, start, max(end, start + 1))
        fail(UsageError, message, "bad-shape", span=span, help=help)

    def next(self) -> tuple[str, str, int]:
        """Return kind, text and start of the next token; kind is "" at the end."""
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            start = len(self.text) - len(self.text[self.pos :].lstrip())
            if start < len(self.text):
                self.fail(start, start + 1, f"unexpected {self.text[start]!r}")
            return "", "", len(self.text)
        self.pos = m.end()
        kind = m.lastgroup or ""
        return kind, m[kind], m.start(kind)

    def peek(self) -> tuple[str, str, int]:
        pos = self.pos
        token = self.next()
        self.pos = pos
        return token

    def value(self, depth: int) -> Any:
        kind, text, start = self.next()
        if depth > _MAX_DEPTH:
            self.fail(start, start + 1, "nested too deeply")
        if kind == "type":
            return self.type(text, start)
        if kind == "word" and text == "None":
            return None
        if kind == "word" and self.peek()[1] == "(":
            return self.object(text, start, depth)
        if kind == "mark" and text in _CLOSING:
            return self.items(text, start, depth)
        if kind == "word":
            self.word(text, start)
        self.fail(
            start,
            start + len(text),
            f"a type was expected, not {text!r}" if kind else "a type was expected at the end",
            help="a type is spelled f32[3,4]; a scalar is f32[]",
        )

    def object(self, name: str, start: int, depth: int) -> Any:
        """An object of a class, from its name on."""
        found, end = self.classes(name), start + len(name)
        if found is None:
            help = "the classes are those that the module of the function defines or imports"
            self.fail(start, end, f"there is no class {name}", help)
        positional: list[Any] = []
        fields: dict[str, Any] = {}
        self.next()
        comma = True
        while self.peek()[1] != ")":
            kind, text, at = self.peek()
            if not kind:
                self.fail(start, end, f"the '(' after {name} is never closed")
            if not comma:
                self.fail(at, at + len(text), "',' or ')' was expected")
            field = self.field()
            if field in fields:
                self.fail(at, at + len(text), f"the field {field} occurs twice")
            value = self.argument(depth + 1)
            if field:
                fields[field] = value
            else:
                positional.append(value)
            comma = self.peek()[1] == "," and bool(self.next())
        self.next()
        try:
            return found(*positional, **fields)
        except Exception as e:  # whatever the user's class raises is theirs to see
            self.fail(start, self.pos, f"{name} cannot be made: {e}")

    def field(self) -> str:
        """The name before `=`, which is read with it; "" when there is none."""
        pos = self.pos
        kind, text, _ = self.next()
        if kind == "word" and text.isidentifier() and self.next()[1] == "=":
            return text
        self.pos = pos
        return ""

    def argument(self, depth: int) -> Any:
        """Read an argument of a class: a value, or a literal for a field that is no array."""
        kind, text, _ = self.peek()
        if kind == "string":
            return self.next()[1][1:-1]
        if kind == "word" and text in _LITERALS:
            return _LITERALS[self.next()[1]]
        for number in (int, float):
            try:
                value = number(text)
            except ValueError:
                continue
            self.next()
            return value
        return self.value(depth)

    def word(self, text: str, start: int) -> NoReturn:
        """Read a word where a type should be: an element type without a shape, most likely."""
        end = start + len(text)
        if find_dtype(text) is not None:
            help = f"a scalar is spelled {text}[]"
            self.fail(start, end, f"the element type {text} needs a shape", help)
        found = dtype_meant(text)
        help = f"did you mean {found}[]?" if found else "a type is spelled f32[3,4]"
        self.fail(start, end, f"unknown type {text!r}", help)

    def type(self, text: str, start: int) -> ShapedArray:
        name, _, rest = text.partition("[")
        name, end = name.rstrip(), start + len(text)
        dtype = find_dtype(name)
        if dtype is None:
            found = dtype_meant(name)
            help = f"did you mean {found}[{rest}?" if found else ""
            self.fail(start, start + len(name), f"unknown element type {name!r}", help)
        if not rest.endswith("]"):
            self.fail(end, end + 1, "']' was expected at the end of the shape")
        shape: list[int] = []
        at = start + text.index("[") + 1
        for dim in rest[:-1].split(",") if rest[:-1].strip() else ():
            if not dim.strip().isdecimal():
                self.fail(at, at + len(dim), f"not a dimension: {dim.strip()!r}")
            shape.append(int(dim))
            at += len(dim) + 1
        return ShapedArray(tuple(shape), dtype)

    def items(self, opening: str, start: int, depth: int) -> Any:
        """Read the items between brackets."""
        pairs: dict[Any, Any] = {}
        values: list[Any] = []
        comma, trailing = True, False
        while self.peek()[1] != _CLOSING[opening]:
            kind, text, at = self.peek()
            if not kind:
                self.fail(start, start + 1, f"this {opening!r} is never closed")
            if not comma:
                self.fail(at, at + len(text), f"',' or {_CLOSING[opening]!r} was expected")
            if opening == "{":
                key = self.key(pairs)
                pairs[key] = self.value(depth + 1)
            else:
                values.append(self.value(depth + 1))
            comma = self.peek()[1] == ","
            trailing = comma and bool(self.next())
        self.next()
        if opening == "{":
            return pairs
        if opening == "(" and len(values) == 1 and not trailing:
            return values[0]
        return tuple(values) if opening == "(" else values

    def key(self, pairs: dict[Any, Any]) -> Any:
        kind, text, start = self.next()
        if kind not in ("string", "word"):
            self.fail(start, start + len(text), f"a key was expected, not {text!r}")
        key: Any = text[1:-1] if kind == "string" else int(text) if text.isdecimal() else text
        if key in pairs:
            self.fail(start, start + len(text), f"the key {key!r} occurs twice")
        kind, text, start = self.next()
        if text != ":":
            self.fail(start, start + len(text), "':' was expected after the key")
        return key
