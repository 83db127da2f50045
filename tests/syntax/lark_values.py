"""Numbers, constants and values of params from Lark's trees."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

from lark import Token, Tree

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import (
    ElementClass,
    EnumMember,
    NumpyScalar,
    Opaque,
    OrderedSet,
    PrintedFunction,
    RangeTuple,
    Record,
    Word,
    spelled,
)
from jaxprtool.ir.trees import LEAF, TreeDefinition
from jaxprtool.syntax.consts import ArrayBytes, ArrayRef, ArrayText
from jaxprtool.syntax.placements import PLACEMENTS
from tests.syntax.lark_tree import Meaningless, Rejected, tokens, tree_of, trees

__all__ = ["constant", "reject_fault", "scalar", "value_of"]


# ---- numbers and constants


def number(word: str) -> Any:
    """The number that a text of the grammar spells."""
    if word in ("True", "False"):
        return word == "True"
    if m := re.fullmatch(r"nan\(0x([0-9a-f]{16})\)", word):
        return ArrayBytes(bytes.fromhex(m[1])[::-1], (), find_dtype("f64")).tolist()  # type: ignore[arg-type]
    if m := re.fullmatch(r"complex\(([^\s,]+),([^\s,]+)\)", word):
        return complex(number(m[1]), number(m[2]))
    if "_" in word:  # which Python's numbers may have
        raise Meaningless(f"{word} is no number")
    try:
        if re.fullmatch(r"[+-]?\d+", word):
            return int(word)
        return complex(word) if word.rstrip(")").endswith("j") or word[:1] == "(" else float(word)
    except ValueError:
        raise Meaningless(f"{word} is no number") from None


def scalar(word: str, dtype: Any) -> Any:
    """The number of an element type that a text spells."""
    if dtype.kind == "0":
        if word not in ("(b'',)", "False"):
            raise Meaningless(f"{word} is no {dtype}")
        return False
    value, kind = number(word), dtype.kind
    if kind == "f" and type(value) is int:
        return float(value)
    if kind == "c" and type(value) in (int, float):
        return complex(value)
    fits = {bool: "b", int: "iuk?", float: "f?", complex: "c"}[type(value)]
    bits = dtype.bits
    bounds = {"i": (-(1 << bits >> 1), (1 << bits >> 1) - 1), "u": (0, (1 << bits) - 1)}
    low, high = bounds.get(kind, (-math.inf, math.inf)) if type(value) is int else (0, 0)
    if kind not in fits or (type(value) is int and not low <= value <= high):
        raise Meaningless(f"{word} is no {dtype}")
    return value


def constant(data: Any, aval: Any) -> Any:
    """The value of a constant, which has to be of the binder's type."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None:
        raise Meaningless(f"a value of type {aval}")
    if isinstance(data, Tree) and data.data in ("npz", "base64"):
        first, second = [str(t)[1:-1] for t in tokens(data, "DATA_STRING")]
        if data.data == "npz":
            return ArrayRef(first, second, shape, dtype)
        return _bytes(first, second, aval)
    keys = dtype.kind == "k"
    data_shape = (*shape, dtype.bits // 32) if keys else shape
    values = _nested(data, dtype)
    empty = 0 in data_shape
    if values != _no_values(data_shape) if empty else _shape_of(values) != tuple(data_shape):
        raise Meaningless(f"not the shape of {aval}")
    return ArrayText(values, shape, dtype)


def _no_values(shape: Any) -> list[Any]:
    """The nested lists of an array without elements."""
    return [_no_values(shape[1:]) for _ in range(shape[0])]


def _bytes(spelled: str, text: str, aval: Any) -> ArrayBytes:
    if spelled != str(aval.strong):
        raise Meaningless(f"{spelled} is not {aval}")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Meaningless("no base64") from None
    dtype = aval.dtype
    if len(data) != math.prod(aval.shape) * max(dtype.bits // 8, 1):  # a key has several words
        raise Meaningless(f"not the bytes of {aval}")
    return ArrayBytes(data, aval.shape, dtype)


def _nested(data: Any, dtype: Any) -> Any:
    if isinstance(data, Token):
        word = str(data)
        if dtype.kind not in "k?":
            return scalar(word, dtype)
        if not re.fullmatch(r"[+-]?\d+", word):
            raise Meaningless(f"{word} is no integer")
        return int(word)
    return [
        _nested(c, dtype) for c in data.children if isinstance(c, Tree) or c.type == "DATA_SCALAR"
    ]


def _shape_of(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    shapes = {_shape_of(v) for v in values}
    if len(shapes) > 1:
        raise Meaningless("a ragged list")
    return (len(values), *(shapes.pop() if shapes else ()))


# ---- values of params


_LEAF = "__leaf__"
_STARS = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\*""")


class _Outside(Exception):
    """A value that the grammar reads and that is kept as text."""


def value_of(file: Any, text: str, names: dict[str, ClosedJaxpr]) -> Any:
    """The value that a text of a file spells; `names` are the shared jaxprs that it may name."""
    return _Value(file, text, names).read()


class _Value:
    """The value that a text spells: by the rule `value`; any other text is free text."""

    def __init__(self, file: Any, text: str, names: dict[str, Any]):
        self.file, self.text, self.names = file, text, names
        self.placing = False  # inside a mesh

    def read(self) -> Any:
        try:
            return self.value(tree_of(self.text, "value"))
        except (Rejected, _Outside):
            return Opaque(self.text)

    def value(self, tree: Tree) -> Any:
        return getattr(self, str(tree.data))(tree)

    def all(self, tree: Tree) -> list[Any]:
        return [self.value(t) for t in trees(tree)]

    def number(self, tree: Tree) -> Any:
        return number(str(tree.children[0]))

    def string(self, tree: Tree) -> Any:
        return _unquoted(str(tree.children[0]))

    def angled(self, tree: Tree) -> Any:
        text = str(tree.children[0])
        function = re.fullmatch(r"<function ([\w.<>]+) at 0x\w+>", text)
        if function:
            return PrintedFunction(text, tuple(function[1].split(".")))
        if member := re.fullmatch(r"<(\w+)\.(\w+): (-?\d{1,18})>", text):
            made = EnumMember(member[1], member[2], int(member[3]))
            return made if repr(made) == text else Opaque(text)
        number = re.fullmatch(r"<class '(jax\.numpy|numpy|ml_dtypes)\.(\w+)'>", text)
        if number and (dtype := find_dtype(number[2])):
            return ElementClass(dtype, f"{number[1]}.{number[2]}")
        return Opaque(text)

    def word(self, tree: Tree) -> Any:
        word = str(tree.children[0])
        known = {"None": None, "True": True, "False": False, "Ellipsis": ..., "...": ...}
        return known[word] if word in known else self.names.get(word, Word(word))

    def tuple(self, tree: Tree) -> Any:
        return tuple(self.all(tree))

    def list_value(self, tree: Tree) -> Any:
        return self.all(tree)

    def dict(self, tree: Tree) -> Any:
        found = {}
        for pair in trees(tree, "pair"):
            key, value = self.all(pair)
            if isinstance(key, (list, dict)):
                raise _Outside
            found[key] = value
        return found

    def frozenset(self, tree: Tree) -> Any:
        found = self.all(tree)
        texts = [v if isinstance(v, Word) else repr(v) for v in found]
        return frozenset(found) if texts == sorted(texts) else OrderedSet(found)

    def set(self, tree: Tree) -> Any:
        found = self.all(tree)
        if not all(isinstance(x, str) for x in found):
            raise _Outside
        return frozenset(found)

    def placement(self, tree: Tree) -> Any:
        """A mesh or a partition spec; a record, or no value at all, where it is none."""
        name, outer = str(tree.children[0])[:-1], self.placing
        sizes: dict[Any, Any] = {}
        args: list[Any] = []
        fields: dict[str, Any] = {}
        self.placing = True
        try:
            for entry in trees(tree, "entry"):
                names = [str(t)[:-1] for t in tokens(entry, "FIELD")]
                if pairs := trees(entry, "pair"):
                    key, sizes_value = self.all(pairs[0])
                    if type(key) is not str:
                        raise _Outside
                    sizes[key] = sizes_value
                elif names:
                    (fields[names[0]],) = self.all(entry)
                else:
                    args += self.all(entry)
            found = PLACEMENTS[name](name, sizes, args, fields)
            return spelled(found, self.text[tree.meta.start_pos : tree.meta.end_pos])
        except (ValueError, TypeError):
            if trees(tree, "pair") or sizes or self.text[tree.meta.end_pos - 2] == ",":
                raise _Outside from None
        finally:
            self.placing = outer
        return self.made(name, args, fields)

    def tree_definition(self, tree: Tree) -> Any:
        """A tree whose structure is a value, in which a leaf is a word and a jaxpr is none; else text."""
        text = self.text[tree.meta.start_pos : tree.meta.end_pos]
        structure = _STARS.sub(lambda m: m[1] or f" {_LEAF} ", text[len("PyTreeDef(") : -1])
        inner = _Value(self.file, structure, {**self.names, _LEAF: LEAF})
        try:
            read = tree_of(structure, "value")
            if next(read.find_data("jaxpr_value"), None):
                raise _Outside
            found = TreeDefinition(inner.value(read))
        except (Rejected, _Outside):
            return Opaque(text)
        return spelled(found, text)

    def shaped_array(self, tree: Tree) -> Any:
        aval = self.file.type(trees(tree)[0])
        if not isinstance(aval, ShapedArray):
            raise _Outside
        return aval.update(weak_type=True) if tokens(tree, "WEAKLY") else aval

    def jaxpr_value(self, tree: Tree) -> Any:
        inner = self.file.within(self.text, tree)
        return inner.program(trees(tree, "program")[0])

    def record(self, tree: Tree) -> Any:
        name = str(tree.children[0])[:-1]
        args: list[Any] = []
        fields: dict[str, Any] = {}
        for argument in trees(tree, "argument"):
            (value,) = self.all(argument)
            names = [str(t)[:-1] for t in tokens(argument, "FIELD")]
            if not names and fields:
                raise _Outside
            args += [] if names else [value]
            fields |= dict.fromkeys(names, value)
        return self.made(name, args, fields)

    def made(self, name: str, args: list[Any], fields: dict[str, Any]) -> Any:
        if "\n" in self.text and "lambda" not in self.text and not self.placing:
            raise _Outside  # a print of an array, or of a function: line breaks mean something
        return _made(name, tuple(args), fields)


def _made(name: str, args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    if not fields and name == "slice" and 1 <= len(args) <= 3:
        return slice(*args)
    if not fields and name == "range" and 1 <= len(args) <= 3:
        if not all(type(a) is int for a in args) or (len(args) == 3 and not args[2]):
            raise _Outside
        bounds = range(*args)
        if bounds[1000:] or repr(bounds) != f"range({', '.join(map(str, args))})":
            raise _Outside
        return RangeTuple(bounds)
    scalar = re.fullmatch(r"np\.(u?)int(\d{1,3})", name)
    if scalar and len(args) == 1 and type(args[0]) is int:
        bits = int(scalar[2])
        if not (0 if scalar[1] else -(2 ** (bits - 1))) <= args[0] < 2 ** (bits - (not scalar[1])):
            raise _Outside
        return NumpyScalar(args[0], name)
    if not all(f.isidentifier() for f in fields):
        raise _Outside
    return Record(name, args, **fields)


def _unquoted(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

    def one(m: re.Match[str]) -> str:
        if m[3] is not None and m[3] not in escapes:
            raise _Outside
        return chr(int(m[1] or m[2], 16)) if m[3] is None else escapes[m[3]]

    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", one, text[1:-1])


def reject_fault(text: str, at: int) -> None:
    """Reject free text that holds what has a meaning elsewhere."""
    try:
        tree_of(text, "free_text")
    except Rejected:
        raise Rejected(at, text[:20]) from None
