"""`ft_in` and `ft_out` of a scan, from JAX 0.11 on: trees whose leaves are the operands and the results, for counts of them."""

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
    """The numbers of leaves of the first trees of a tuple of them: of an operand or result each.

    Args:
      trees: as JAX prints them, `((), (None,), (RightsOnly(Right(None)),))`; what is on the `Left` is none, `Right(Left(None))` too.
      count: how many trees to look at.
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
    """The text with a leaf for what is on the right of each choice, of choices within it too, and nothing for what is on a left."""
    before = ""
    while text != before:
        before = text
        text = _RIGHT.sub(lambda m: "*" if m[1].strip() else "", _LEFT.sub("", text))
    return text


def _with_leaves(tree: str, leaves: str) -> str:
    """A tree with its leaves in their places, each of which may be on one side of a choice; `None` in a tree is none of them."""
    rest = iter(leaves.split(",") if leaves else ())
    inside = _NO_LEAF.sub("", tree)
    return "".join([next(rest, "None") if c == "*" else c for c in inside])


def _parted(text: str) -> tuple[str, str]:
    """A text before and after the bracket that closes what began before it."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return text[:i], text[i + 1 :]
    return text, ""


def flat_trees(counts: Sequence[int], last: str) -> str:
    """The text of trees that are tuples with so many leaves; those of the last one are spelled `last`.

    Only results have leaves of their own spelling; the last tree of the operands is spelled as the others.
    """
    leaves = ["None"] * (len(counts) - 1) + [last]
    parts = [_tuple([leaf] * n) for leaf, n in zip(leaves, counts, strict=True)]
    return _tuple(parts)


def _tuple(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
