"""Convert between JAX's pytrees and the trees of an interface: the leaves of arguments, the containers of results."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import Node, Tree

__all__ = ["Containers", "node_of"]


def node_of(x: Any) -> Node | None:
    """Return one level of a pytree; None for a leaf."""
    children, _ = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda y: y is not x)
    if len(children) == 1 and not children[0][0]:
        return None
    entries = [path[0] for path, _ in children]
    is_dict = bool(entries) and all(isinstance(e, jax.tree_util.DictKey) for e in entries)
    keys = [getattr(e, "key", getattr(e, "name", None)) for e in entries]
    return Node([child for _, child in children], keys, is_dict or isinstance(x, dict))


class Containers:
    """Flattens the arguments of one call, and remembers their classes, to build results of the same classes.

    An interface knows a class by its name. A result of a class that no argument has is a named
    tuple of that name, or a tuple where its fields have no names.
    """

    def __init__(self) -> None:
        self.structures: dict[Any, Any] = {}

    def leaves(self, tree: Tree, x: Any, path: str) -> list[Any]:
        """Return the leaves of an argument, in the order of a tree.

        A list may stand for a tuple, and a dict or an object of another class for an object with
        fields of these names.

        Args:
          tree: the required structure of the argument.
          x: the argument.
          path: its name, for messages.

        Raises:
          UsageError: it has another structure.
        """
        if tree.kind == "none":
            if jax.tree_util.tree_leaves(x):
                message = f"the argument {path} has values, and is None in the program"
                fail(UsageError, message, "argument-tree")
            return []
        node = None if x is None else node_of(x)
        if tree.kind == "leaf":
            if node is not None or x is None:
                message = f"the argument {path} is {type(x).__name__}, and one array is needed"
                fail(UsageError, message, "argument-tree")
            return [x]
        found: list[Any] = []
        children = self._children(tree, x, node, path)
        for step, child, y in zip(tree.steps(), tree.children, children, strict=True):
            found += self.leaves(child, y, path + step)
        return found

    def _children(self, tree: Tree, x: Any, node: Node | None, path: str) -> Sequence[Any]:
        """Return the children of a node, in the order of the tree's."""
        if node is not None:
            children, keys = list(node.children), _plain_keys(node.keys)
            named = bool(tree.keys) and None not in tree.keys
            if tree.kind == "object" and type(x).__name__ == tree.name:
                structure = jax.tree_util.tree_structure(x, is_leaf=lambda y: y is not x)
                self.structures.setdefault((tree.name, tree.keys), structure)
            if named and len(keys) == len(tree.keys) and set(keys) == set(tree.keys):
                by_name = dict(zip(keys, children, strict=True))
                return [by_name[k] for k in tree.keys]
            if not named and len(children) == len(tree.children) and not (keys and node.is_dict):
                return children
        message = f"the argument {path} is {_shown(x, node)}, and {tree} is needed"
        return fail(UsageError, message, "argument-tree")

    def filled(self, tree: Tree, leaves: Iterator[Any]) -> Any:
        """Return the pytree that a tree describes, with these leaves."""
        if tree.kind == "leaf":
            return next(leaves)
        if tree.kind == "none":
            return None
        children = [self.filled(child, leaves) for child in tree.children]
        if tree.kind == "list":
            return children
        if tree.kind == "tuple":
            return tuple(children)
        if tree.kind == "dict":
            make = collections.OrderedDict if tree.name == "OrderedDict" else dict
            return make(zip(tree.keys, children, strict=True))
        structure = self.structures.get((tree.name, tree.keys))
        if structure is not None:
            return jax.tree_util.tree_unflatten(structure, children)
        if not tree.keys or any(k is None for k in tree.keys):
            return tuple(children)
        return _named_tuple(tree.name, tree.keys)(*children)


@functools.cache
def _named_tuple(name: str, fields: tuple[Any, ...]) -> Any:
    """Return the class for results of a class of which only the name is known: the same for all
    calls, as JAX compares classes.
    """
    return collections.namedtuple(name or "Result", fields, rename=True)


def _plain_keys(keys: Sequence[Any]) -> list[Any]:
    """Return the keys of a node in the form that an interface has."""
    return [k if type(k) in (str, int) else repr(k) for k in keys]


def _shown(x: Any, node: Node | None) -> str:
    if node is None:
        return type(x).__name__
    if node.is_dict:
        return "{" + ", ".join(map(repr, node.keys)) + "}"
    return f"{type(x).__name__} of {len(node.children)}"
