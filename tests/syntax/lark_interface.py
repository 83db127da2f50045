"""Interfaces of programs, from Lark's trees."""

from __future__ import annotations

import json
from typing import Any

from lark import Tree

from jaxprtool.ir import interface as ir
from tests.syntax.lark_tree import Meaningless, tokens, trees

__all__ = ["interface_of"]

_PLAIN: dict[str, ir.Kind] = {"tree_tuple": "tuple", "tree_list": "list"}


def interface_of(tree: Tree) -> ir.Interface:
    """The interface that stands below a program; raises `Meaningless`."""
    *members, result = trees(tree)
    names, args = _members(members)
    named = [f"arg{i}" if name is None else name for i, name in enumerate(names)]
    return ir.Interface(tuple(zip(named, args, strict=True)), _tree(result))


def _tree(tree: Tree) -> ir.Tree:
    if tree.data == "leaf":
        return ir.LEAF
    if tree.data == "no_leaf":
        return ir.NONE
    name = "".join(map(str, tokens(tree, "CLASS")))
    if tree.data == "object":
        fields, children = _members(trees(tree))
        made = ir.Tree("object", tuple(children), tuple(fields), name)
    elif tree.data == "tree_dict":
        words = [str(tokens(p, "TREE_KEY")[0]) for p in trees(tree)]
        keys = [json.loads(w) if w[0] == '"' else int(w) for w in words]
        _different(keys)
        made = ir.Tree("dict", tuple([_tree(trees(p)[0]) for p in trees(tree)]), tuple(keys), name)
    else:
        made = ir.Tree(_PLAIN[tree.data], tuple(map(_tree, trees(tree))))
    if made.depth > ir.MAX_DEPTH:
        raise Meaningless("nested too deeply")
    return made


def _members(members: list[Tree]) -> tuple[list[str | None], list[ir.Tree]]:
    names = ["".join(tokens(m, "ARGUMENT")).rstrip("= \t\n") or None for m in members]
    _different([n for n in names if n is not None])
    return names, [_tree(trees(m)[0]) for m in members]


def _different(keys: list[Any]) -> None:
    if len(set(keys)) < len(keys):
        raise Meaningless("two are the same")
