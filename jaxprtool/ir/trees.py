"""Tree definitions (`PyTreeDef`) in params: the pytrees of the arguments and results of Python functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jaxprtool.ir.params import ParamValue, Structured, Word

__all__ = ["LEAF", "TreeDefinition"]

LEAF = Word("*")


class TreeDefinition(Structured):
    """A pytree without its leaves: `PyTreeDef(((*,), {'x': *}))`.

    Attributes:
      structure: tuples, lists, dicts and None, with `LEAF` for each leaf; a record for a node of a
        custom class.
    """

    __slots__ = ("structure",)
    structure: Any

    def __init__(self, structure: Any):
        self._fill(structure=structure)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the pytree with these leaves, in the order of the text.

        Raises:
          ValueError: there are too few leaves, or a node is of a custom class.
        """
        return _filled(self.structure, iter(leaves))

    def count(self) -> int | None:
        """Return the number of leaves; None where a node is of a custom class."""
        return _count(self.structure)

    def _key(self) -> tuple[Any, ...]:
        return (repr(self.structure),)

    def __reduce__(self):
        return TreeDefinition, (self.structure,), self._state()

    def _text(self) -> str:
        return f"PyTreeDef({self.structure!r})"


def _count(node: ParamValue) -> int | None:
    if node is None:
        return 0
    if isinstance(node, (tuple, list, dict)):
        parts = [_count(v) for v in (node.values() if isinstance(node, dict) else node)]
        return None if None in parts else sum(n for n in parts if n is not None)
    return 1 if isinstance(node, Word) and node == LEAF else None


def _filled(node: ParamValue, leaves: Iterator[Any]) -> Any:
    if node is LEAF or (isinstance(node, Word) and node == LEAF):
        try:
            return next(leaves)
        except StopIteration:
            raise ValueError("a tree has more leaves than there are values") from None
    if isinstance(node, dict):
        return {k: _filled(v, leaves) for k, v in node.items()}
    if isinstance(node, (tuple, list)):
        parts = [_filled(v, leaves) for v in node]
        return (
            tuple(parts) if isinstance(node, tuple) else parts
        )  # JAX takes a list of ours for a leaf
    if node is not None:
        raise ValueError(f"no container of Python's: {node}")
    return None
