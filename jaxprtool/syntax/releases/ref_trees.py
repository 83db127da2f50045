"""Read indices of references from the trees that JAX prints without its notation (`custom_pp_eqn_rules=False`).

`c:f32[4] <- r[i,:]` is `c:f32[4] = get[tree=PyTreeDef((CustomNode(NDIndexer[(PyTreeDef((*,
CustomNode(Slice[(0, 4, 1)], [None, None]))), (4, 4), ())], [*]),))] r i` there: the leaves of the
tree are the operands after the reference and the value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.jaxpr import Lit
from jaxprtool.ir.references import (
    Bitcast,
    Indexer,
    Item,
    Operand,
    RefIndex,
    Reshape,
    Slice,
    Step,
    Transpose,
)
from jaxprtool.ir.settled import number_of, slice_of
from jaxprtool.syntax.infer import UntypedLit
from jaxprtool.syntax.patterns import pattern

__all__ = ["index_and_mask", "index_of_dims", "index_of_tree"]

_TOKEN = pattern(
    r"\s*(?:(\d{1,18})|dtype\('(\w+)'\)|(\w+(?=\[))|(PyTreeDef\(|CustomNode\(|None\b|[*(\[,)\]]))"
)
_CLOSES = {"(": ")", "[": "]"}
_MAX_DEPTH = 20
_LEAF = "*"


class _Node(NamedTuple):
    """A custom node in a tree.

    Attributes:
      name: the name of its class.
      about: its fields that are no leaves.
      parts: its children.
    """

    name: str
    about: tuple[Any, ...]
    parts: list[Any]


class _Reader:
    """Reads the text of a tree: numbers, element types, None, leaves, tuples, lists and nodes."""

    def __init__(self, text: str):
        self.text, self.pos = text, 0

    def token(self) -> tuple[Any, str]:
        """Return the next token: its value, and the mark or name ("" for a value)."""
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            raise ValueError(f"no tree of an index: {self.text[self.pos :][:20]}")
        self.pos = m.end()
        number, dtype, name, mark = m.groups()
        if dtype and find_dtype(dtype) is None:
            raise ValueError(f"{dtype} is no element type")
        return (int(number), "") if number else (find_dtype(dtype or ""), name or mark or "")

    def expect(self, mark: str) -> None:
        if self.token()[1] != mark:
            raise ValueError(f"expected {mark}")

    def value(self, depth: int = 0) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("too deep")
        value, mark = self.token()
        if not mark or mark == _LEAF or mark == "None":
            return mark or value if mark != "None" else None
        if mark in _CLOSES:
            items = self.items(_CLOSES[mark], depth)
            return tuple(items) if mark == "(" else items
        if mark == "PyTreeDef(":
            inner = self.value(depth + 1)
            self.expect(")")
            return inner
        if mark != "CustomNode(":
            raise ValueError(f"{mark} is no value")
        _, name = self.token()
        (about,) = self.value(depth + 1)
        self.expect(",")
        parts = self.value(depth + 1)
        self.expect(")")
        return _Node(name, about, parts)

    def items(self, close: str, depth: int) -> list[Any]:
        """Read values up to a closing bracket."""
        found: list[Any] = []
        while True:
            before = self.pos
            if self.token()[1] == close:
                return found
            self.pos = before
            found.append(self.value(depth + 1))
            before = self.pos
            if self.token()[1] != ",":
                self.pos = before
                self.expect(close)
                return found


def index_of_tree(text: str, operands: Sequence[Any]) -> tuple[RefIndex, list[Any]]:
    """Return the index that a tree and its leaves form, and the leaves that are operands: literals
    become numbers in the index.

    Args:
      text: `PyTreeDef(...)`, of the transforms of a reference.
      operands: the leaves, in order.

    Raises:
      ValueError, TypeError: not the tree of an index, or one with other leaves.
    """
    reader = _Reader(text)
    tree = reader.value()
    if text[reader.pos :].strip():
        raise ValueError("something behind the tree")
    leaves = _Leaves(operands)

    def number(x: Any) -> int | Operand:
        return leaves.next() if x == _LEAF else x

    steps = [_step(node, number) for node in tree]
    return RefIndex(*steps), leaves.finished()


def index_and_mask(text: str) -> tuple[RefIndex, bool]:
    """Return the index in a tree of (reference, transforms, value, mask), and whether there is a
    mask; leaves are operands.

    Raises:
      ValueError, TypeError: another tree.
    """
    reader = _Reader(text)
    ref, transforms, value, mask = reader.value()
    if text[reader.pos :].strip() or (ref, value) != (_LEAF, _LEAF) or mask not in (None, _LEAF):
        raise ValueError("no tree of a reference, its transforms, a value and a mask")
    positions = itertools.count()

    def number(x: Any) -> int | Operand:
        return Operand(next(positions)) if x == _LEAF else x

    return RefIndex(*[_step(node, number) for node in transforms]), mask is not None


def index_of_dims(
    dims: Sequence[bool], shape: Sequence[Any], operands: Sequence[Any]
) -> tuple[RefIndex, list[Any]]:
    """Return the index that selects along the dimensions marked True, and the operands that are no numbers.

    Args:
      dims: `indexed_dims`, for each dimension of the reference; () for the whole cell.
      shape: the shape of the reference; () where it is not known.
      operands: an index for each True.

    Raises:
      ValueError: another number of operands, or of dimensions.
    """
    leaves = _Leaves(operands)
    if not dims:
        return RefIndex(), leaves.finished()
    sizes = shape or [None] * len(dims)
    items: list[Item] = []
    for indexed, size in zip(dims, sizes, strict=True):
        items.append(number_of(leaves.next(), size) if indexed else Slice())
    return RefIndex(Indexer(tuple(items))), leaves.finished()


class _Leaves:
    """Takes the operands of an index one after another: a literal becomes a number, any other one stays an operand."""

    def __init__(self, operands: Sequence[Any]):
        self._left = iter(operands)
        self._kept: list[Any] = []

    def next(self) -> int | Operand:
        """Return the next one."""
        leaf = next(self._left, None)
        if leaf is None:
            raise ValueError("more leaves than operands")
        if isinstance(leaf, UntypedLit):
            return int(leaf.text)
        if isinstance(leaf, Lit) and type(leaf.val) is int:
            return leaf.val
        self._kept.append(leaf)
        return Operand(len(self._kept) - 1)

    def finished(self) -> list[Any]:
        """Return the operands that stay; raises ValueError unless all have been taken."""
        if next(self._left, None) is not None:
            raise ValueError("fewer leaves than operands")
        return self._kept


def _step(node: _Node, number: Callable[[Any], int | Operand]) -> Step:
    """Return one transform of a reference.

    To 0.8 the classes of views have other names, and hold the element type too.
    """
    match node.name:
        case "NDIndexer":
            items, shape, _ = node.about
            pairs = zip(items, shape, strict=True)
            return Indexer(tuple([_item(x, size, number) for x, size in pairs]))
        case "ReshapeTransform" | "RefReshaper":
            return Reshape(node.about[-1])
        case "TransposeTransform" | "RefTransposer":
            return Transpose(node.about[-1])
        case "BitcastTransform" | "RefBitcaster":
            return Bitcast(node.about[0])
        case name:
            raise ValueError(f"{name} is no transform of a reference")


def _item(x: Any, size: int, number: Callable[[Any], int | Operand]) -> Item:
    """Return the index of a dimension of this size."""
    if not isinstance(x, _Node):
        return number_of(number(x), size)
    # to 0.4.28: there was no stride, and static numbers were not among the parts
    if len(x.about) + len(x.parts) == 2:
        start, length = map(number, (*x.parts, *x.about))
        return slice_of(start, length, 1, size)
    *known, stride = x.about
    start, length = [
        number(part if v is None else v) for v, part in zip(known, x.parts, strict=True)
    ]
    return slice_of(start, length, stride, size)
