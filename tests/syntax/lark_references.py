"""Indices of references in Lark's tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Tree

from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Opaque, spelled
from jaxprtool.ir.references import (
    Bitcast,
    Fragments,
    Indexer,
    Operand,
    RefIndex,
    Reshape,
    Slice,
    Transpose,
)
from tests.syntax.lark_tree import tokens, trees

__all__ = ["index_of"]


def index_of(paths: list[Tree]) -> tuple[RefIndex, list[str]]:
    """The index that its parts spell, and the names of its operands."""
    steps: list[Any] = []
    names: list[str] = []
    marks = ""
    plain = all("$" not in str(t) for path in paths for t in path.scan_values(lambda _: True))
    for path in paths:
        if found := tokens(path, "TRANSFORM"):
            text = f"{{{found[0][1:-1]}}}"
            steps.append(_transform_of(text) if plain else Opaque(text))
            marks += text
            continue
        items = [str(tokens(i, "INDEX")[0]) for i in trees(path, "index")]
        if items != ["..."] or not plain:
            before = len(names)
            steps.append(Indexer(tuple([_item_of(i, names, plain) for i in items])))
            counts = iter(range(before, len(names)))
            items = [_marked(i, x, counts) for i, x in zip(items, steps[-1].items, strict=True)]
        marks += f"[{','.join(items)}]"
    index = RefIndex(*steps)
    return spelled(index, marks) if plain else index, names


def _marked(text: str, item: Any, counts: Iterator[int]) -> str:
    """The text of an item with `$0` for operand 0; in a slice the start may be there twice."""
    seen: dict[str, str] = {}

    def mark(m: re.Match[str]) -> str:
        if isinstance(item, Fragments) or m[0] not in seen:
            seen[m[0]] = f"${next(counts)}"
        return seen[m[0]]

    return re.sub(r"(?<![\w.])[^\W\d]\w*", mark, text)


def _item_of(raw: str, names: list[str], plain: bool) -> Any:
    """A number, an operand, a slice, or text around operands."""

    def number(word: str) -> Any:
        if word[0].isdigit():
            return int(word)
        names.append(word)
        return Operand(len(names) - 1)

    text = raw.strip()
    value = r"(?:\d{1,18}|[^\W\d]\w*)"
    if plain and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if plain and re.fullmatch(r"[^\W\d]\w*", text):
        return number(text)
    m = re.fullmatch(rf"({value}?):([^:]*)(?::([1-9]\d{{0,17}}))?", text) if plain else None
    if m and (more := re.fullmatch(rf"{re.escape(m[1])}\+({value})", m[2])) and m[1]:
        start, size = number(m[1]), number(more[1])
        stride = int(m[3] or 1)
        return Slice(start, -(-size // stride) if isinstance(size, int) else size, stride)
    if m and not m[1] and re.fullmatch(r"[^\W\d]\w*", m[2]):
        return Slice(0, number(m[2]), int(m[3] or 1))
    if m and re.fullmatch(r"\d*", m[1]) and re.fullmatch(r"\d{0,18}", m[2]):
        start, stride = int(m[1] or 0), int(m[3] or 1)
        return Slice(start, -((start - int(m[2])) // stride) if m[2] else None, stride)
    parts = re.split(r"(?<![\w.])([^\W\d]\w*)", raw)
    return Fragments(*[number(p) if i % 2 else p for i, p in enumerate(parts) if p])


def _transform_of(text: str) -> Any:
    m = re.fullmatch(r"\{(\w+)\(([^\W\d]\w*)?(\[?)([-\d, ]*)\]*\)\}", text)
    dims = re.fullmatch(r"(?:(?:-?\d{1,18}, ?)*-?\d{1,18},?)?", m[4]) if m else None
    dtype = find_dtype(m[2]) if m and m[2] else None
    if m is None or dims is None or (m[2] and dtype is None):
        return Opaque(text)
    sizes = tuple([int(d) for d in m[4].split(",") if d.strip()])
    if m[1] == "bitcast" and dtype is not None:
        return Bitcast(dtype)
    if m[1] == "reshape":
        return Reshape(sizes)
    return Transpose(sizes) if m[1] == "transpose" and not m[2] else Opaque(text)
