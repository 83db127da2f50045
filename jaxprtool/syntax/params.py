"""Values of params: text to values and back.

The literal grammar consists of numbers, strings, names, tuples, lists, dicts, frozensets, slices,
named constructors, NumPy scalars, types, and jaxprs inside of those. Any other text becomes an
`Opaque`, which prints back unchanged. Text is never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.avals import AbstractType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.frozen import FrozenDict, FrozenList
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.kinds import UNREAD, Kind
from jaxprtool.ir.params import (
    ElementClass,
    EnumMember,
    NumpyScalar,
    Opaque,
    OrderedSet,
    ParamValue,
    PrintedArray,
    PrintedFunction,
    RangeTuple,
    Record,
    Word,
    spelled,
)
from jaxprtool.ir.trees import LEAF, TreeDefinition
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.placements import PLACEMENTS
from jaxprtool.syntax.types import VARYING, read_type, untyped_scalar

__all__ = ["format_value", "read_value"]

_INSIDE = r"(?:[^<>()\[\]{}\n]|<[^<>()\[\]{}\n]*>)*"
_ANGLED = rf"<(?:[^<>()\[\]{{}}\n]|<{_INSIDE}>|\({_INSIDE}\)|\[{_INSIDE}\]|\{{{_INSIDE}\}})*>"
_LINE_OF_FILE = r"[^()\[\]{},=<>'\"\n]+?:\d+(?![\w.:])"
_OF_REFERENCE = (
    r"\{(?:[^{}()\[\]\n]|\[(?:[^{}()\[\]\n]|\([^{}()\[\]\n]*\))*\]|\{[^{}()\[\]\n]*\})*\}"
)
_TOKEN = pattern(
    r"\s*(?:(?P<num>[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?|(?:inf|nan)j?(?![(=]))(?![\w.]))"
    r"|(?P<str>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    rf"|(?P<opaque>(?:{_ANGLED}|[^\W\d][\w.]*) at {_LINE_OF_FILE}|{_ANGLED}"
    rf"|(?:Mem)?Ref(?:<\w+>)?{_OF_REFERENCE})"
    r"|(?P<jaxpr>\{\s*lambda\b|let (?!\s|= )(?:(?! = )[^\n]){1,200}? = \{ lambda\b)"
    r"|(?P<word>[^\W\d][\w.]*(?:<\w+>)?)"
    r"|(?P<leaf>\*)"
    r"|(?P<mark>[()\[\]{},:=]))"
)
_INTEGER = r"-?(?:0|[1-9]\d{0,17})"
_INTEGERS = pattern(  # a tuple of integers or `()`: most values are shapes, axes or indices
    rf"\((?:{_INTEGER}(?:(?:, {_INTEGER})++|,))?+\)", re.ASCII
)
_WORDS = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis, "...": Ellipsis}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE = pattern(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
_BRACKET = pattern(r"[()\[\]{}]")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ELIDED = pattern(r"\s*\.\.\.")
_SHAPED_ARRAY = pattern(rf"\s*([\w<>]+\[[^\]]*\](?:{VARYING})?)\s*(,\s*weak_type=True)?\s*\)")
_FUNCTION = pattern(r"<function ([\w.<>]+) at 0x\w+>")
_MEMBER = pattern(r"<(\w+)\.(\w+): (0|-?[1-9]\d{0,17})>")
_CLASS = pattern(r"<class '((?:numpy|jax(?:\._src)?\.numpy(?:\.lax_numpy)?|ml_dtypes)\.(\w+))'>")
_MAX_DEPTH = 100
_LONGEST_RANGE = 1000  # number of axes in a range
_SCALAR_TYPES = pattern(r"np\.(u?)int(\d{1,3})")

ReadJaxpr = Callable[[int], "tuple[ClosedJaxpr, int] | None"]
ReadName = Callable[[str, int], "ClosedJaxpr | None"]


class _Outside(Exception):
    """The text is outside of the literal grammar."""


def read_value(
    text: str,
    kind: Kind | None = None,
    read_jaxpr: ReadJaxpr | None = None,
    read_name: ReadName | None = None,
) -> Any:
    """Return the value that a text spells.

    Args:
      text: the text after `key=`.
      kind: the kind of the param, where it is declared; it converts the text to the value.
      read_jaxpr: takes the offset in the text where a jaxpr begins; returns the jaxpr and its
        length, or None where there is none.
      read_name: takes a word inside the value and its offset; returns the jaxpr that it names, or
        None.
    """
    if kind is not None:
        if kind.spelling == "type" and (aval := _array_type(text.strip())) is not None:
            return aval
        found = kind.read_text(text)
        if found is not UNREAD:
            return found
        return kind.read(_literal(text, read_jaxpr, read_name))
    return _literal(text, read_jaxpr, read_name)


def _array_type(text: str) -> ShapedArray | None:
    """Return the array type that a text spells, weakly typed after `~`; None for any other text."""
    weak = text.startswith("~")
    try:
        aval = read_type(text[weak:])
    except (ValueError, JaxprTypeError):
        return None
    if not isinstance(aval, ShapedArray):
        return None
    return aval.update(weak_type=True) if weak else aval


def _literal(raw: str, read_jaxpr: ReadJaxpr | None, read_name: ReadName | None) -> Any:
    """Return the value of a text in the literal grammar; an `Opaque` for any other text."""
    text = raw.rstrip()
    if _INTEGERS.fullmatch(text):
        return tuple(map(int, text[1:-1].rstrip(",").split(","))) if text != "()" else ()
    value = untyped_scalar(text)
    if value is not None:
        return value
    reader = _Reader(text, read_jaxpr, read_name)
    try:
        value = reader.value(0)
        if reader.pos < len(text) and text[reader.pos :].strip():
            return Opaque(raw)
    except _Outside:
        return Opaque(raw)
    if reader.keeps_lines and format_value(value) != text:
        return Opaque(raw)
    return value


class _Reader:
    """Recursive descent over a value, to a bounded depth."""

    def __init__(self, text: str, read_jaxpr: ReadJaxpr | None, read_name: ReadName | None = None):
        self.text, self.pos, self.read_jaxpr, self.read_name = text, 0, read_jaxpr, read_name
        # Inside a mesh, a tree definition, a print of an array.
        self.placing = self.in_tree = self.in_array = False
        self.keeps_lines = (
            False  # whether to print the value as it stands, since the grammar does not cover it
        )

    def next(self) -> re.Match[str]:
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            raise _Outside
        self.pos = m.end()
        return m

    def peek(self) -> str:
        m = _TOKEN.match(self.text, self.pos)
        return (m["mark"] or "") if m else ""

    def take(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.next()
        return True

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _Outside
        if self.in_array and (elided := _ELIDED.match(self.text, self.pos)):
            self.pos = elided.end()
            return ...
        m = self.next()
        kind = m.lastgroup
        if kind == "num":
            number = untyped_scalar(m["num"])
            return self.element(number) if self.in_array else number
        if kind == "str":
            return _unquote(m["str"])
        if kind == "leaf" and self.in_tree:
            return LEAF
        if kind == "opaque":
            return _object(m["opaque"])
        if kind == "jaxpr" and not self.in_tree:
            return self.jaxpr(m.start("jaxpr"))
        if kind == "word":
            return self.word(m["word"], depth)
        if m["mark"] == "(":
            return self.tuple_or_complex(m.start("mark"), depth)
        if m["mark"] == "[":
            return FrozenList(self.items("]", depth)[0])
        if m["mark"] == "{":
            return self.mapping(depth)
        raise _Outside

    def jaxpr(self, start: int) -> ClosedJaxpr:
        if self.read_jaxpr is None:
            raise _Outside
        read = self.read_jaxpr(start)
        if read is None:
            raise _Outside
        found, length = read
        self.pos = start + length
        return found

    def items(self, close: str, depth: int) -> tuple[list[Any], bool]:
        """Read values up to `close`; also return whether a comma follows the last."""
        found: list[Any] = []
        comma = False
        while not self.take(close):
            if found and not comma:
                raise _Outside
            found.append(self.value(depth + 1))
            comma = self.take(",")
        return found, comma

    def tuple_or_complex(self, start: int, depth: int) -> Any:
        end = self.text.find(")", start)
        number = untyped_scalar(self.text[start : end + 1]) if 0 < end - start < 90 else None
        if number is not None:
            self.pos = end + 1
            return number
        found, comma = self.items(")", depth)
        if len(found) == 1 and not comma:
            raise _Outside
        return tuple(found)

    def set_of(self, first: Any, depth: int) -> frozenset[Any]:
        """Read a set in a partition spec, `{'x', 'y'}`, after its first member."""
        self.take(",")
        rest = self.items("}", depth)[0]
        if not all(isinstance(x, str) for x in (first, *rest)):
            raise _Outside
        return frozenset([first, *rest])

    def mapping(self, depth: int) -> Any:
        found: dict[Any, Any] = {}
        while not self.take("}"):
            key = self.value(depth + 1)
            if self.placing and not found and self.peek() in (",", "}"):
                return self.set_of(key, depth)
            if not self.take(":") or isinstance(key, (list, dict)):
                raise _Outside
            found[key] = self.value(depth + 1)
            if not self.take(",") and self.peek() != "}":
                raise _Outside
        return FrozenDict(found)

    def word(self, word: str, depth: int) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        if not self.text.startswith("(", self.pos):
            found = self.read_name(word, self.pos - len(word)) if self.read_name else None
            return Word(word) if found is None else found
        self.pos += 1
        if word == "PyTreeDef":
            return self.tree(word, depth)
        if word == "frozenset":
            return self.frozenset(depth)
        if word == "ShapedArray":
            return self.shaped_array()
        if word == "array" and (array := self.array(depth)) is not None:
            return array
        if word in PLACEMENTS and (found := self.placement(word, depth)) is not None:
            return found
        # Except in functions and arrays, line breaks are significant in values that are no Python literals.
        self.keeps_lines |= "\n" in self.text and "lambda" not in self.text and not self.placing
        args, fields = self.arguments(depth)
        return _construct(word, args, fields)

    def array(self, depth: int) -> PrintedArray | None:
        """Read a printed array, in which complex numbers have no brackets, and `...` stands for
        elements; None for another call.
        """
        start, self.in_array = self.pos, True
        try:
            args, fields = self.arguments(depth)
        except _Outside:
            args, fields = (), {}
        finally:
            self.in_array = False
        if len(args) != 1 or not fields.keys() <= {"dtype", "shape"}:
            self.pos = start
            return None
        return spelled(PrintedArray(args[0], fields), f"array({self.text[start : self.pos]}")

    def element(self, number: Any) -> Any:
        """Read an element of an array that begins with a number: this number, or a complex one of
        which it is the real part.
        """
        m = _TOKEN.match(self.text, self.pos)
        part: str = m["num"] or "" if m and m.start("num") == self.pos else ""
        imaginary = untyped_scalar(part) if part[:1] in ("+", "-") else None
        if type(imaginary) is not complex or number is None:
            return number
        self.pos += len(part)
        return complex(number, imaginary.imag)

    def frozenset(self, depth: int) -> frozenset[Any]:
        if self.take(")"):
            return frozenset()
        if not self.take("{"):
            raise _Outside
        found = self.items("}", depth)[0]
        texts = [_repr(v, str) for v in found]
        if not self.take(")"):
            raise _Outside
        try:
            return frozenset(found) if texts == sorted(texts) else OrderedSet(found)
        except TypeError:
            raise _Outside from None

    def tree(self, word: str, depth: int) -> Any:
        """Read a tree definition; it stays text where it has nodes other than Python's containers."""
        start, outer = self.pos, self.in_tree
        self.in_tree = True
        try:
            structure = self.value(depth + 1)
            if not self.take(")"):
                raise _Outside
            return spelled(TreeDefinition(structure), f"{word}({self.text[start : self.pos]}")
        except _Outside:
            self.pos = start
            return self.balanced(word)
        finally:
            self.in_tree = outer

    def balanced(self, word: str) -> Opaque:
        """Return the text of `word(...)` up to the bracket that closes it."""
        start, closes = self.pos - 1, [")"]
        for m in _BRACKET.finditer(self.text, self.pos):
            if m[0] in _CLOSES:
                closes.append(_CLOSES[m[0]])
            elif m[0] != closes.pop():
                raise _Outside
            if not closes:
                self.pos = m.end()
                return Opaque(word + self.text[start : self.pos])
        raise _Outside

    def placement(self, word: str, depth: int) -> Any:
        """Read a mesh or a partition spec, `Mesh('x': 2, axis_types=(Auto,))`; None for malformed ones."""
        start, outer = self.pos, self.placing
        sizes: dict[str, Any] = {}
        args: list[Any] = []
        fields: dict[str, Any] = {}
        self.placing = True
        try:
            while not self.take(")"):
                m = self.next()
                if m.lastgroup == "word" and self.text.startswith("=", self.pos):
                    self.pos += 1
                    fields[m["word"]] = self.value(depth + 1)
                else:
                    self.pos = m.start()
                    value = self.value(depth + 1)
                    if type(value) is str and self.take(":"):
                        sizes[value] = self.value(depth + 1)
                    else:
                        args.append(value)
                if self.peek() != ")" and not self.take(","):
                    raise _Outside
            text = f"{word}({self.text[start : self.pos]}"
            return spelled(PLACEMENTS[word](word, sizes, args, fields), text)
        except (_Outside, ValueError, TypeError):
            self.pos = start
            return None
        finally:
            self.placing = outer

    def shaped_array(self) -> ShapedArray:
        m = _SHAPED_ARRAY.match(self.text, self.pos)
        aval = _array_type(m[1]) if m else None
        if m is None or aval is None:
            raise _Outside
        self.pos = m.end()
        return aval.update(weak_type=True) if m[2] else aval

    def arguments(self, depth: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        fields: dict[str, Any] = {}
        while not self.take(")"):
            start = self.pos
            m = self.next()
            if m.lastgroup == "word" and self.text.startswith("=", self.pos):
                self.pos += 1
                fields[m["word"]] = self.value(depth + 1)
            else:
                self.pos = start
                args.append(self.value(depth + 1))
                if fields:
                    raise _Outside
            if self.peek() != ")" and (not self.take(",") or self.peek() == ")"):
                raise _Outside
        return tuple(args), fields


def _object(text: str) -> Any:
    """Read a text in angle brackets: a function, a member of an enum, a class of numbers; any other object stays text.

    Functions with their location, `<lambda> at f.py:3`, and types of references,
    `MemRef<None>{float32[8]}`, stay text too.
    """
    if m := _FUNCTION.fullmatch(text):
        return PrintedFunction(text, tuple(m[1].split(".")))
    if m := _MEMBER.fullmatch(text):
        return EnumMember(m[1], m[2], int(m[3]))
    m = _CLASS.fullmatch(text)
    dtype = find_dtype(m[2]) if m else None
    return Opaque(text) if m is None or dtype is None else ElementClass(dtype, m[1])


def _unquote(text: str) -> str:
    body = text[1:-1]
    if "\\" not in body:
        return body

    def one(m: re.Match[str]) -> str:
        if m[3] is not None:
            if m[3] not in _ESCAPES:
                raise _Outside
            return _ESCAPES[m[3]]
        return chr(int(m[1] or m[2], 16))

    return _ESCAPE.sub(one, body)


def _construct(name: str, args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    """Return the value of `name(...)` for the names with a class of their own; else a `Record`."""
    if name == "slice" and not fields and 1 <= len(args) <= 3:
        return slice(*args)
    scalar = _SCALAR_TYPES.fullmatch(name)
    if scalar and len(args) == 1 and not fields and type(args[0]) is int:
        low = 0 if scalar[1] else -(1 << int(scalar[2]) - 1)
        if not low <= args[0] < low + (1 << int(scalar[2])):
            raise _Outside  # no scalar of NumPy's prints so
        return NumpyScalar(args[0], name)
    if name == "range" and not fields and 1 <= len(args) <= 3:
        return _range(args)
    if any(not f.isidentifier() for f in fields):
        raise _Outside
    return Record(name, args, **fields)


def _range(args: tuple[Any, ...]) -> RangeTuple:
    if not all(type(a) is int for a in args) or (len(args) == 3 and not args[2]):
        raise _Outside
    bounds = range(*args)
    if bounds[_LONGEST_RANGE:] or repr(bounds) != f"range({', '.join(map(str, args))})":
        raise _Outside
    return RangeTuple(bounds)


def format_value(value: Any, jaxpr_text: Callable[[ClosedJaxpr], str] = str) -> str:
    """A value as JAX prints it: `str(value)`, with JAX's names for types."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, NumpyScalar):
        return str(int(value))
    return _repr(value, jaxpr_text)


def _repr(value: ParamValue, jaxpr_text: Callable[[ClosedJaxpr], str]) -> str:
    """`repr(value)`, with JAX's names for types."""
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) is tuple:
        inner = ", ".join([_repr(v, jaxpr_text) for v in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join([_repr(v, jaxpr_text) for v in value])}]"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, ClosedJaxpr):
        return jaxpr_text(value)
    if isinstance(value, dict):
        pairs = [f"{_repr(k, jaxpr_text)}: {_repr(v, jaxpr_text)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if type(value) is frozenset:
        return f"frozenset({{{', '.join(sorted(_repr(v, jaxpr_text) for v in value))}}})"
    if isinstance(value, Record):
        parts = [_repr(v, jaxpr_text) for v in value.args]
        parts += [f"{k}={_repr(v, jaxpr_text)}" for k, v in value.fields.items()]
        return f"{value.name}({', '.join(parts)})"
    if isinstance(value, AbstractType):
        return _type_text(value)
    return repr(value)


_PLAIN = frozenset(
    {int, float, bool, str, type(None), complex, Word, Opaque, PrintedFunction, NumpyScalar, slice}
)


def _type_text(aval: AbstractType) -> str:
    """Return a type as JAX prints it in params: `ShapedArray(float32[3])`."""
    if not isinstance(aval, ShapedArray):
        return str(aval)
    return f"ShapedArray({aval.str_short()}{', weak_type=True' if aval.weak_type else ''})"
