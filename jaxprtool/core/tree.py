"""Pytrees, by the `optree` library: tuples, lists, dicts, None, namedtuples and registered nodes.

`None` is an empty node and dictionaries flatten in the order of their sorted keys, as in JAX. The library is
imported when the first tree is flattened: the verbs that work on files never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Any, NoReturn

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import Node
from jaxprtool.ir.jaxpr import Value

__all__ = [
    "PyTreeDef",
    "check_depth",
    "register_pytree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_node",
    "tree_paths",
    "tree_prefix_leaves",
    "tree_unflatten",
]

PyTree = Any  # a leaf, or a node of any registered class
PyTreeDef = Any  # optree's PyTreeSpec: compared with ==, hashable
_NAMESPACE = "jaxprtool"


@cache
def _optree() -> Any:
    import optree  # noqa: PLC0415 (gateway)

    return optree


def tree_flatten(tree: PyTree) -> tuple[list[Value], PyTreeDef]:
    """Return the leaves, and the structure that puts them back.

    Raises UsageError for a tree that is nested too deeply.
    """
    try:
        leaves, spec = _optree().tree_flatten(tree, namespace=_NAMESPACE)
    except RecursionError:
        _fail_too_deep()
    return leaves, spec


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Value]) -> PyTree:
    """The inverse of `tree_flatten`."""
    return _optree().tree_unflatten(treedef, leaves)


def tree_leaves(tree: PyTree) -> list[Value]:
    """Return the leaves, left to right. Raises UsageError for a tree that is nested too deeply."""
    try:
        return _optree().tree_leaves(tree, namespace=_NAMESPACE)
    except RecursionError:
        _fail_too_deep()


_DEEPEST = 900  # levels; Python's limit is 1,000


def check_depth(tree: PyTree) -> None:
    """Raise UsageError for lists, tuples and dicts that are nested hundreds deep.

    JAX's `tree_flatten` fails at such trees, and leaves Python in a state in which later calls fail
    with a RecursionError.
    """
    level: list[Any] = [tree]
    for _ in range(_DEEPEST):
        nodes: list[Any] = [x for x in level if isinstance(x, (list, tuple, dict))]
        if not nodes:
            return
        children: list[Any] = [[*x.values()] if isinstance(x, dict) else x for x in nodes]
        level = [*chain.from_iterable(children)]
    _fail_too_deep()


def _fail_too_deep() -> NoReturn:
    fail(UsageError, "an argument is a pytree that is nested too deeply", "too-deep")


def tree_paths(tree: PyTree) -> list[str]:
    """Return a Python-like path for each leaf: `['w'][0]`."""
    return [
        "".join(f"[{p!r}]" for p in path)
        for path in _optree().tree_paths(tree, namespace=_NAMESPACE)
    ]


def tree_node(x: PyTree) -> Node | None:
    """Return one level of a pytree; None for a leaf."""
    try:
        children, _, entries, _ = _optree().tree_flatten_one_level(x, namespace=_NAMESPACE)
    except ValueError:
        return None
    names = getattr(x, "_fields", None)
    fields = names if isinstance(x, tuple) else None  # of a named tuple
    return Node(children, fields or entries, isinstance(x, dict))


def tree_prefix_leaves(prefix: PyTree, tree: PyTree, is_leaf: Callable[[Any], bool]) -> list[Value]:
    """Return the leaves of `prefix`, each repeated for every leaf of `tree` below it.

    Raises ValueError when `prefix` is not a prefix of `tree`.
    """
    out: list[Any] = []

    def extend(leaf: Value, subtree: PyTree) -> None:
        out.extend([leaf] * len(tree_leaves(subtree)))

    _optree().tree_map_(extend, prefix, tree, is_leaf=is_leaf, namespace=_NAMESPACE)
    return out


def register_pytree_node(
    cls: type,
    flatten: Callable[[Any], tuple[Any, Any]],
    unflatten: Callable[[Any, Any], Any],
) -> None:
    """Register `cls` as a pytree node.

    Args:
      cls: the class.
      flatten: instance -> (children, hashable auxiliary data).
      unflatten: (auxiliary data, children) -> instance.
    """
    _optree().register_pytree_node(cls, flatten, unflatten, namespace=_NAMESPACE)
