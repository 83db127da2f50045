"""The params `ft_in` and `ft_out` of a scan, from JAX 0.11 on: trees whose numbers of leaves are
the counts of operands and results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxprtool.syntax.patterns import pattern

__all__ = ["flat_trees", "parts_of_trees"]

_TREE = pattern(r"Pytree\(vals=\[(.*?)\], tree=PyTreeDef\(", re.DOTALL)
_STATIC = pattern(r"\bStatic\(")
_KEY = pattern(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"")
_NO_LEAF = pattern(r"[^\[\](){},*]++")
_LEFT, _RIGHT = pattern(r"Left\([^()]*\)"), pattern(r"Right\(([^()]*)\)")
_LEAF = pattern(r"\*|\bNone\b")


def parts_of_trees(trees: Any, count: int) -> tuple[int, ...]:
    """Return the numbers of leaves of the first trees in a tuple of trees; each leaf is an operand or result.

    Args:
      trees: as JAX prints them, `((), (None,), (RightsOnly(Right(None)),))`. What is inside `Left`
        is no leaf, and `Right(Left(None))` is none either.
      count: the number of trees to look at.
    """
    text = _KEY.sub("", str(trees))
    while m := _STATIC.search(text):
        text = text[: m.start()] + _parted(text[m.end() :])[1]
    while m := _TREE.search(text):
        tree, rest = _parted(text[m.end() :])
        text = text[: m.start()] + _with_leaves(tree, m[1]) + rest[1:]
    text = _without_sides(text)
    parts: list[int] = []
    depth, start = 0, 1
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if (c == "," and depth == 1) or depth == 0:
            parts.append(len(_LEAF.findall(text, start, i)))
            start = i + 1
        if depth == 0:
            break
    return tuple(parts[:count])


def _without_sides(text: str) -> str:
    """Replace `Right(...)` in a text by a leaf, and `Left(...)` by nothing, at any depth."""
    before = ""
    while text != before:
        before = text
        text = _RIGHT.sub(lambda m: "*" if m[1].strip() else "", _LEFT.sub("", text))
    return text


def _with_leaves(tree: str, leaves: str) -> str:
    """Return a tree with its leaves in their places; they may be inside `Left` or `Right`.

    `None` in a tree is no leaf.
    """
    rest = iter(leaves.split(",") if leaves else ())
    inside = _NO_LEAF.sub("", tree)
    return "".join([next(rest, "None") if c == "*" else c for c in inside])


def _parted(text: str) -> tuple[str, str]:
    """Split a text at the bracket that closes one opened before the text."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return text[:i], text[i + 1 :]
    return text, ""


def flat_trees(counts: Sequence[int], last: str) -> str:
    """Return the text of tuples with so many leaves; the leaves of the last tuple are spelled `last`.

    Only results have a spelling of their own; the last tree of the operands is spelled as the
    others.
    """
    leaves = ["None"] * (len(counts) - 1) + [last]
    parts = [_tuple([leaf] * n) for leaf, n in zip(leaves, counts, strict=True)]
    return _tuple(parts)


def _tuple(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
