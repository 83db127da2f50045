"""The interface of a program: the names of its arguments, and the pytrees of its arguments and results.

A program takes and returns a flat list of leaves. Its interface says how the leaves form pytrees:
in the function that was traced `params` may be a dict of arrays, and the result a pair. For nodes
of classes (named tuples, dataclasses, registered classes) only the name of the class is kept, so
that reading a file imports nothing.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Literal, NamedTuple

from jaxprtool.ir.diagnostics import UsageError, are, counted, fail

__all__ = [
    "LEAF",
    "MAX_DEPTH",
    "NONE",
    "Interface",
    "Kind",
    "Node",
    "Part",
    "Tree",
    "argument_label",
    "argument_labels",
    "check_count",
    "interface_of",
    "key_text",
    "leaf_names",
    "named_arguments",
    "result_label",
    "result_labels",
    "tree_of",
    "tuple_of",
]

Kind = Literal["leaf", "none", "tuple", "list", "dict", "object"]
Key = str | int | None
MAX_DEPTH = 100  # levels of a tree; a file cannot hold a deeper one
_SHOWN = 8  # names of arguments to show in a message


class Tree(NamedTuple):
    """The structure of a pytree.

    Attributes:
      kind: `leaf`, `none` (an empty node), `tuple`, `list`, `dict`, or `object`, an instance of a
        class.
      children: the subtrees, in the order of their leaves.
      keys: for a dict its keys, strings and integers; for an object the names of its fields, None
        for a child without one.
      name: the name of the class of an object, or of a dict type other than `dict` (`OrderedDict`).
    """

    kind: Kind
    children: tuple[Tree, ...] = ()
    keys: tuple[Key, ...] = ()
    name: str = ""

    @property
    def size(self) -> int:
        """The number of leaves."""
        return sum(1 for _ in self._leaves())

    @property
    def depth(self) -> int:
        """The number of nested nodes on the longest path, leaves not counted. Not recursive."""
        found, pending = 0, [(self, 1)]
        while pending:
            tree, level = pending.pop()
            found = max(found, level if tree.children else level - 1)
            pending += [(child, level + 1) for child in tree.children]
        return found

    def _leaves(self) -> Iterator[Tree]:
        pending: list[Tree] = [self]
        while pending:
            tree = pending.pop()
            if tree.kind == "leaf":
                yield tree
            pending.extend(reversed(tree.children))

    def steps(self) -> list[str]:
        """Return the key of each child as Python spells it: `["w"]`, `[0]`, `.pos`."""
        if self.kind == "dict":
            return [f"[{key_text(k)}]" for k in self.keys]
        if self.kind == "object":
            return [f"[{i}]" if k is None else f".{k}" for i, k in enumerate(self.keys)]
        return [f"[{i}]" for i in range(len(self.children))]

    def paths(self) -> list[str]:
        """Return the path from the root to each leaf: `["layers"][0]["w"]`."""
        found: list[str] = []
        pending: list[tuple[str, Tree]] = [("", self)]
        while pending:
            path, tree = pending.pop()
            if tree.kind == "leaf":
                found.append(path)
            below = zip(tree.steps(), tree.children, strict=True)
            pending.extend(reversed([(path + step, child) for step, child in below]))
        return found

    def pruned(self, kept: Iterable[bool]) -> Tree:
        """Return the tree with None in the place of the leaves that are dropped; other leaves keep their paths.

        Args:
          kept: for each leaf whether it is kept.
        """
        return _pruned(self, iter(kept))

    def find(self, path: str) -> list[Part]:
        """Return the subtrees that a path may refer to: `["w"]`, `['w']`, `.w` and `/w` all name
        the entry "w" of a dict.

        There may be several where keys contain dots, slashes or brackets.
        """
        found: dict[tuple[int, int], Part] = {}
        pending: list[tuple[str, int, int, Tree]] = [(path, 0, 0, self)]
        while pending:
            rest, start, level, tree = pending.pop()
            if not rest:
                found[start, level] = Part(start, tree)
                continue
            for key, child in zip(_keys_of(tree), tree.children, strict=True):
                for step in _spellings(key):
                    after = rest[len(step) :]
                    if rest.startswith(step) and (not after or after[0] in "[./"):
                        pending.append((after, start, level + 1, child))
                start += child.size
        return sorted(found.values(), key=lambda p: p.start)

    def __str__(self) -> str:
        """The structure as a file has it: `{"b": *, "w": (*, None)}`."""
        return self.filled(repeat("*"))

    def filled(self, leaves: Iterator[str]) -> str:
        """Return the structure with a text in the place of each leaf: `{"b": f32[], "w": (f32[3], None)}`."""
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return "None"
        opening, closing = self.brackets()
        labelled = zip(self.labels(), self.children, strict=True)
        inner = ", ".join([f"{label}{child.filled(leaves)}" for label, child in labelled])
        comma = "," if self.kind == "tuple" and len(self.children) == 1 else ""
        return f"{opening}{inner}{comma}{closing}"

    def brackets(self) -> tuple[str, str]:
        """Return the texts before the first and after the last child of a node."""
        return {
            "tuple": ("(", ")"),
            "list": ("[", "]"),
            "dict": (f"{self.name}{{", "}"),
            "object": (f"{self.name}(", ")"),
        }[self.kind]

    def labels(self) -> list[str]:
        """Return the text before each child: `"w": `, `pos=`, or nothing."""
        if self.kind == "dict":
            return [f"{key_text(k)}: " for k in self.keys]
        if self.kind == "object":
            return ["" if k is None else f"{k}=" for k in self.keys]
        return [""] * len(self.children)


class Part(NamedTuple):
    """A subtree of the arguments or results, and the position of its first leaf."""

    start: int
    tree: Tree

    @property
    def positions(self) -> range:
        """The positions of its leaves among all leaves."""
        return range(self.start, self.start + self.tree.size)


LEAF, NONE = Tree("leaf"), Tree("none")


def tuple_of(trees: Iterable[Tree]) -> Tree:
    """A tuple of trees."""
    return Tree("tuple", (*trees,))


def key_text(key: Key) -> str:
    """Return a dict key as a file spells it: a quoted string, or an integer."""
    if not isinstance(key, str):
        return str(key)
    return json.dumps(key, ensure_ascii=not key.isprintable())


def _keys_of(tree: Tree) -> Sequence[str | int]:
    keys = tree.keys or [None] * len(tree.children)
    return [i if key is None else key for i, key in enumerate(keys)]


def _spellings(key: str | int) -> list[str]:
    if not isinstance(key, str):
        return [f"[{key}]", f".{key}", f"/{key}"]
    return [f"[{key_text(key)}]", f"['{key}']", f"[{key}]", f".{key}", f"/{key}"]


def _pruned(tree: Tree, kept: Iterator[bool]) -> Tree:
    if tree.kind == "leaf":
        return tree if next(kept) else NONE
    return tree._replace(children=tuple([_pruned(c, kept) for c in tree.children]))


class Interface(NamedTuple):
    """The names of a program's arguments, and the pytrees of its arguments and results.

    Attributes:
      args: for each argument of the function its name and its tree; their leaves in order are the
        program's arguments.
      result: the tree of the results.
    """

    args: tuple[tuple[str, Tree], ...]
    result: Tree

    def fits(self, n_in: int, n_out: int) -> bool:
        """Whether the trees have as many leaves as the program has arguments (`n_in`) and results (`n_out`)."""
        return self.n_in == n_in and self.result.size == n_out

    @property
    def n_in(self) -> int:
        """The number of leaves of all arguments."""
        return sum([tree.size for _, tree in self.args])

    def names(self) -> list[str]:
        """The name of each leaf of the arguments: `params["w"]`."""
        return [name + path for name, tree in self.args for path in tree.paths()]

    def of_leaves(self, kept: Sequence[bool]) -> Interface:
        """Return the interface with only some leaves of the arguments; the others become None."""
        flags = iter(kept)
        return self._replace(args=tuple([(name, tree.pruned(flags)) for name, tree in self.args]))

    def parts(self) -> list[Part]:
        """Return the part that each argument of the function forms."""
        found: list[Part] = []
        start = 0
        for _, tree in self.args:
            found.append(Part(start, tree))
            start += tree.size
        return found

    def find(self, path: str) -> list[Part]:
        """Return the parts of the arguments that a path may refer to (see `Tree.find`).

        A path begins with the name of an argument.
        """
        found: list[Part] = []
        for (name, tree), part in zip(self.args, self.parts(), strict=True):
            rest = path[len(name) :]
            if path.startswith(name) and (not rest or rest[0] in "[./"):
                found += [Part(part.start + p.start, p.tree) for p in tree.find(rest)]
        return found

    def filled(self, ins: Iterable[str], outs: Iterable[str]) -> str:
        """Return the signature with a text for each leaf: `(w={"b": f32[]}, x=f32[3]) -> f32[]`."""
        leaves = iter(ins)
        args = ", ".join([f"{name}={tree.filled(leaves)}" for name, tree in self.args])
        return f"({args}) -> {self.result.filled(iter(outs))}"

    def __str__(self) -> str:
        return f"args {self.filled(repeat('*'), repeat('*'))}"


def argument_label(i: int, name: str | None, interface: Interface | None) -> str:
    """Return the label of argument i in messages: `argument params["w"]`, or `argument 1 (b)` by its variable."""
    if interface is not None:
        return f"argument {interface.names()[i]}"
    return f"argument {i} ({name})" if name else f"argument {i}"


def argument_labels(names: Iterable[str | None], interface: Interface | None) -> list[str]:
    """Return `argument_label` of each argument; `names` are the names of their variables."""
    if interface is not None:
        return [f"argument {name}" for name in interface.names()]
    return [argument_label(i, name, None) for i, name in enumerate(names)]


def check_count(expected: int, given: int, interface: Interface | None) -> None:
    """Raise UsageError, with the names of the arguments, unless `given` is the expected number of arguments."""
    if given == expected:
        return
    names = interface.names() if interface is not None else []
    more = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
    which = f" ({', '.join(more)})" if more else ""
    takes = f"{counted(expected, 'argument')}{which}"
    fail(UsageError, f"the program takes {takes}, and {are(given)} given", "argument-count")


def result_label(i: int, interface: Interface | None) -> str:
    """Return the label of result i in messages: `result["loss"]`, or `result 1`."""
    return _result_label(i, "" if interface is None else interface.result.paths()[i])


def result_labels(n: int, interface: Interface | None) -> list[str]:
    """Return the labels of all n results, in time linear in their number."""
    paths = [""] * n if interface is None else interface.result.paths()
    return [_result_label(i, path) for i, path in enumerate(paths)]


def _result_label(i: int, path: str) -> str:
    return f"result{path}" if path else f"result {i}"


class Node(NamedTuple):
    """One level of a pytree: a node and its children.

    Attributes:
      children: the children in order.
      keys: for a dict or a dict-like node its keys; else the names of fields, or other objects,
        which are not taken for names.
      is_dict: whether the node is a dict or dict-like.
    """

    children: Sequence[Any]
    keys: Sequence[Any]
    is_dict: bool


def tree_of(x: Any, node_of: Callable[[Any], Node | None]) -> Tree | None:
    """Return the structure of a pytree; None for one that is nested too deeply.

    Args:
      x: the pytree.
      node_of: returns one level of a node; None for a leaf.
    """
    try:
        return _tree_of(x, node_of, 0)
    except RecursionError:
        return None


def _tree_of(x: object, node_of: Callable[[Any], Node | None], depth: int) -> Tree:
    if x is None:
        return NONE
    node = node_of(x)
    if node is None:
        return LEAF
    if depth >= MAX_DEPTH:
        raise RecursionError
    trees = tuple([_tree_of(child, node_of, depth + 1) for child in node.children])
    cls = type(x)
    if cls is tuple or cls is list:
        return Tree("tuple" if cls is tuple else "list", trees)
    if node.is_dict:
        keys = [k if type(k) in (str, int) else repr(k) for k in node.keys]
        if len({*keys}) == len(keys):
            return Tree("dict", trees, tuple(keys), "" if cls is dict else _class_name(cls))
    fields = [k if isinstance(k, str) and k.isidentifier() else None for k in node.keys]
    unique = len({*fields}) == len(fields)
    return Tree(
        "object", trees, tuple(fields if unique else [None] * len(fields)), _class_name(cls)
    )


def _class_name(cls: type[Any]) -> str:
    name = "".join([c if f"_{c}".isidentifier() else "_" for c in cls.__name__])
    return name if name.isidentifier() else f"_{name}"


def interface_of(
    named: Sequence[tuple[str, Any]], result: Tree | None, node_of: Callable[[Any], Node | None]
) -> Interface | None:
    """Return the interface of a function: its arguments by name, and the tree of its result.

    None where a tree is None, or an argument is nested too deeply.
    """
    args = [(name, tree_of(arg, node_of)) for name, arg in named]
    trees = [(name, tree) for name, tree in args if tree is not None]
    return None if result is None or len(trees) < len(args) else Interface(tuple(trees), result)


def leaf_names(
    named: Iterable[tuple[str, Any]], node_of: Callable[[Any], Node | None]
) -> Iterator[str]:
    """Return the name of each leaf of some arguments: `params["w"]`."""
    for name, arg in named:
        tree = tree_of(arg, node_of)
        yield from [name + path for path in tree.paths()] if tree else itertools.repeat(name)


def named_arguments(f: Callable[..., Any], args: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pair the arguments of a call with the names of the function's parameters.

    The arguments of `*rest` form one argument, a tuple. An argument without a name is named by its position, `arg0`.
    """
    try:
        parameters = [*inspect.signature(f).parameters.values()]
    except (TypeError, ValueError):  # a builtin may have no signature
        parameters = []
    named: list[tuple[str, Any]] = []
    for i, arg in enumerate(args):
        p = parameters[i] if i < len(parameters) else None
        if p is not None and p.kind is p.VAR_POSITIONAL:
            return [*named, (p.name, tuple(args[i:]))]
        known = p is not None and p.kind is not p.VAR_KEYWORD and p.name.isidentifier()
        named.append((p.name if known and p is not None else f"arg{i}", arg))
    return named
