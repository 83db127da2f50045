"""Parses the pytree structures in the text of lineax's programs: `PyTreeDef(...)` becomes a tree of
`Node`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Node", "read_node"]


class Node(NamedTuple):
    """A node of a pytree structure.

    name: `*` for a leaf, the name of the class for a custom node, `None` for None, "" for others.
    about: the text of the static data of a custom node.
    parts: the children.
    """

    name: str
    about: str
    parts: tuple[Node, ...]

    def leaves(self) -> int:
        """Return the number of its leaves."""
        return 1 if self.name == "*" else sum(part.leaves() for part in self.parts)

    def names(self) -> set[str]:
        """Return the names of all its nodes."""
        return {self.name}.union(*[part.names() for part in self.parts])


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def _end(text: str, start: int) -> int:
    """Return the offset of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"a bracket is not closed in {text}")


def _items(text: str) -> list[str]:
    """Split a text at its commas outside brackets."""
    found, start, i = [], 0, 0
    while i < len(text):
        if text[i] in _CLOSING:
            i = _end(text, i)
        elif text[i] == ",":
            found.append(text[start:i])
            start = i + 1
        i += 1
    return [x.strip() for x in [*found, text[start:]] if x.strip()]


def read_node(text: str) -> Node:
    """Parse the text that JAX prints for a structure. Raises ValueError for other texts."""
    if text in ("*", "None"):
        return Node(text, "", ())
    if text.startswith("CustomNode("):
        about, parts = _items(text.removeprefix("CustomNode(")[:-1])
        name, _, rest = about.partition("[")
        return Node(name, rest, read_node(parts).parts)
    if text[:1] in ("(", "["):
        return Node("", "", tuple(map(read_node, _items(text[1:-1]))))
    if text[:1] == "{":
        values = [item.partition(":")[2].strip() for item in _items(text[1:-1])]
        return Node("", "", tuple(map(read_node, values)))
    raise ValueError(f"{text!r} is no structure")
