"""Rebuild the trees by which a scan of JAX's counts its operands and results (from 0.11 on) from their text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax

from jaxprtool.backends.jax import private
from jaxprtool.ir.params import Record
from jaxprtool.ir.trees import TreeDefinition
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.releases.scan_trees import parts_of_trees

__all__ = ["flat_trees"]

# Exceptions that a text of another release may cause here, since its trees differ.
_FAULTS = (ValueError, TypeError, IndexError, AttributeError, AssertionError)


def flat_trees(counts: Sequence[int], text: Any = None) -> Any:
    """Return JAX's tree with so many leaves in each part.

    Args:
      counts: the number of leaves of each part.
      text: JAX's print of the tree, which is followed where it has these counts and can be read.
    """
    classes = private.flat_tree_classes()
    if text is not None and parts_of_trees(text, len(counts)) == tuple(counts):
        try:
            found = _tree(read_value(str(text)), classes)
            if str(found) == str(text) and tuple(map(len, found.unpack())) == tuple(counts):
                return found
        except _FAULTS:
            pass
    return classes.pack(tuple(map(classes.nones, counts)))


def _tree(node: Any, classes: Any) -> Any:
    """Return JAX's tree of a value that was read.

    Raises ValueError where it is of no known kind.
    """
    if type(node) is tuple:
        return classes.FTTuple(*(_tree(x, classes) for x in node))
    if isinstance(node, dict):
        return classes.FTDict(tuple(node), tuple(_tree(x, classes) for x in node.values()))
    if isinstance(node, Record) and node.name == "Pytree" and isinstance(node.tree, TreeDefinition):
        leaves = tuple(_leaf(x, classes) for x in node.vals)
        structure = jax.tree.structure(node.tree.unflatten(itertools.repeat(0)))
        return classes.FTPyTree(leaves, structure)
    if isinstance(node, Record) and node.name == "RightsOnly":
        return classes.FTFiltered(_tree(node.args[0], classes))
    if isinstance(node, Record) and node.name == "Static":
        return classes.FTStatic(*node.args)
    return classes.FTSingleton(_leaf(node, classes))


def _leaf(node: Any, classes: Any) -> Any:
    """Return None, or one side of JAX's choice of two (`Left`, `Right`), perhaps nested."""
    if isinstance(node, Record) and node.name in ("Left", "Right"):
        made = classes.Either.right if node.name == "Right" else classes.Either.left
        return made(*[_leaf(x, classes) if isinstance(x, Record) else x for x in node.args])
    if node is not None:
        raise ValueError(f"no leaf of a tree: {node}")
    return None
