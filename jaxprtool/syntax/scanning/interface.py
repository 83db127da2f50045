"""The interface of a program in text: `args (params={"w": *, "b": *}, x=*) -> {"loss": *}`, below the program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.interface import LEAF, MAX_DEPTH, NONE, Interface, Tree
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.scanning.comments import CommentScanner
from jaxprtool.syntax.tokens import IDENT, Token

__all__ = ["ARGS", "InterfaceCallbacks", "format_interface", "scan_interface"]

ARGS = pattern(r"args\s*+(?=\()")

_JSON = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_TOKEN = pattern(
    rf"\s*+(?:(?P<LEAF>\*)|(?P<NONE>None(?!\w))|(?P<FIELD>{IDENT}\s*+=(?!=))|(?P<CLASS>{IDENT}(?=[({{]))"
    rf"|(?P<TREE_KEY>{_JSON}|-?\d{{1,18}}(?!\w))|(?P<GIVES>->)|(?P<OPEN>\()|(?P<CLOSE>\))|(?P<LIST_OPEN>\[)"
    r"|(?P<LIST_CLOSE>\])|(?P<DICT_OPEN>\{)|(?P<DICT_CLOSE>\})|(?P<COMMA>,)|(?P<COLON>:))"
)
_DEPTH = {"OPEN": 1, "LIST_OPEN": 1, "DICT_OPEN": 1, "CLOSE": -1, "LIST_CLOSE": -1, "DICT_CLOSE": -1}  # fmt: skip
_ENDS = frozenset({"LEAF", "NONE", "CLOSE", "LIST_CLOSE", "DICT_CLOSE"})


def scan_interface(text: str, start: re.Match[str], tokens: list[Token]) -> int:
    """Add the tokens of an interface, of which `args` is matched; return where they end.

    They end with the tree of the results, and before anything that is no token of an interface.
    """
    tokens.append(("ARGS", None, start.start(), start.end()))
    pos, depth, result = start.end(), 0, False
    while m := _TOKEN.match(text, pos):
        kind = m.lastgroup or ""
        tokens.append((kind, m[kind], m.start(kind), m.end()))
        pos = m.end()
        depth += _DEPTH.get(kind, 0)
        result = result or kind == "GIVES"
        if depth < 0 or (result and depth == 0 and kind in _ENDS):
            break
    return pos


class InterfaceCallbacks:
    """The callbacks of the grammar that build interfaces; the grammar gives lists from their last element on."""

    def __init__(self, errors: Errors, comments: CommentScanner):
        self.errors, self.comments = errors, comments
        self.twice = False  # whether a name or a key stood twice

    def on_without_interface(self, program: ClosedJaxpr) -> ClosedJaxpr:
        return program

    def on_with_interface(
        self, program: ClosedJaxpr, found: tuple[Token, Interface, int]
    ) -> ClosedJaxpr:
        (_, _, start, _), interface, end = found
        if self.twice:  # a name or a key occurs twice, so the tree is incomplete
            return program
        self.comments.give(program, start, "interface")
        n_in, n_out = len(program.jaxpr.in_binders), len(program.jaxpr.outs)
        for what, have, need in (
            ("argument", interface.n_in, n_in),
            ("result", interface.result.size, n_out),
        ):
            if have != need:
                leaves = "1 leaf" if have == 1 else f"{have} leaves"
                message = f"the trees of the {what}s have {leaves}, and the program has {counted(need, what)}"
                self.errors.add(message, "interface-count", start, end, "each `*` stands for one")
        if interface.fits(n_in, n_out):
            program = program.replace(interface=interface)
        return program

    def on_interface(
        self, args: Token, opening: Token, members: list[Any], closing: Token, _: Token, result: Any
    ) -> tuple[Token, Interface, int]:
        del opening
        tree, end = result
        named, trees = self._members(members, "arguments")
        names = [f"arg{i}" if name is None else name for i, name in enumerate(named)]
        return args, Interface(tuple(zip(names, trees, strict=True)), tree), max(end, closing[3])

    # ---- trees, each with where it ends

    def on_leaf(self, token: Token) -> tuple[Tree, int]:
        return LEAF, token[3]

    def on_no_leaf(self, token: Token) -> tuple[Tree, int]:
        return NONE, token[3]

    def on_empty_tuple(self, _: Token, end: Token) -> tuple[Tree, int]:
        return Tree("tuple"), end[3]

    def on_tuple_of_one(self, _: Token, item: Any, comma: Token, end: Token) -> tuple[Tree, int]:
        del comma
        return self._node(Tree("tuple", (item[0],)), end)

    def on_tuple(
        self, _: Token, first: Any, comma: Token, rest: list[Any], end: Token
    ) -> tuple[Tree, int]:
        del comma
        return self._node(Tree("tuple", (first[0], *[t for t, _ in reversed(rest)])), end)

    def on_empty_list(self, _: Token, end: Token) -> tuple[Tree, int]:
        return Tree("list"), end[3]

    def on_list(self, _: Token, items: list[Any], end: Token) -> tuple[Tree, int]:
        return self._node(Tree("list", tuple([t for t, _ in reversed(items)])), end)

    def on_dict(self, _: Token, pairs: list[Any], end: Token) -> tuple[Tree, int]:
        return self._dict("", pairs, end)

    def on_dict_of_class(
        self, name: Token, _: Token, pairs: list[Any], end: Token
    ) -> tuple[Tree, int]:
        return self._dict(name[1], pairs, end)

    def on_object(self, name: Token, _: Token, members: list[Any], end: Token) -> tuple[Tree, int]:
        fields, trees = self._members(members, "fields")
        return self._node(Tree("object", tuple(trees), tuple(fields), name[1]), end)

    # ---- their parts

    def on_none(self) -> list[Any]:
        return []

    def on_last_item(self, item: Any, *_: Token) -> list[Any]:
        return [item]

    def on_one_more(self, item: Any, _: Token, rest: list[Any]) -> list[Any]:
        rest.append(item)
        return rest

    def on_pair(self, key: Token, _: Token, tree: tuple[Tree, int]) -> tuple[Token, Tree]:
        return key, tree[0]

    def on_field(self, name: Token, tree: tuple[Tree, int]) -> tuple[Token, Tree]:
        return name, tree[0]

    def on_no_field(self, tree: tuple[Tree, int]) -> tuple[None, Tree]:
        return None, tree[0]

    def _node(self, tree: Tree, end: Token) -> tuple[Tree, int]:
        """Return a node of other trees; None in the place of one that is nested too deeply."""
        if tree.depth > MAX_DEPTH:
            message = f"a tree is nested in more than {MAX_DEPTH} others"
            self.errors.add(message, "interface-depth", end[2], end[3])
            tree = NONE
        return tree, end[3]

    def _dict(self, name: str, pairs: list[Any], end: Token) -> tuple[Tree, int]:
        keys: dict[Any, Tree] = {}
        for token, tree in reversed(pairs):
            key = json.loads(token[1]) if token[1][0] == '"' else int(token[1])
            self._refuse_twice(key in keys, token, "the key")
            keys[key] = tree
        return self._node(Tree("dict", tuple(keys.values()), tuple(keys), name), end)

    def _members(self, members: list[Any], what: str) -> tuple[list[str | None], list[Tree]]:
        names: list[str | None] = []
        for token, _ in reversed(members):
            name = None
            if token is not None:
                name = token[1].rstrip("= \t\n")
                self._refuse_twice(name in names, token, f"among the {what},")
            names.append(name)
        return names, [tree for _, tree in reversed(members)]

    def _refuse_twice(self, twice: bool, token: Token, what: str) -> None:
        if twice:
            self.twice = True
            message = f"{what} {token[1].rstrip('= ')} stands twice"
            self.errors.add(message, "interface-name", token[2], token[3])


def format_interface(interface: Interface, width: int) -> str:
    """Return the text of an interface: one line where it fits, else a line for each part of what does not.

    Parts that are only leaves share lines.
    """
    flat = str(interface)
    if len(flat) <= width:
        return flat
    named = [(f"{name}=", tree) for name, tree in interface.args]
    lines = [*_lines("args (", named, ")", "", 0, width, f" -> {interface.result}")]
    last = lines[-1]
    if len(last) > width and interface.result.children:
        start = last[: -len(str(interface.result))]
        lines[-1:] = _tree_lines(start, interface.result, "", 0, width)
    return "\n".join(lines)


def _tree_lines(before: str, tree: Tree, after: str, indent: int, width: int) -> Iterator[str]:
    """Return the lines of a tree, with `before` in front of the first and `after` at the end of the last."""
    flat = f"{' ' * indent}{before}{tree}{after}"
    if len(flat) <= width or not tree.children:
        yield flat
        return
    opening, closing = tree.brackets()
    parts = [*zip(tree.labels(), tree.children, strict=True)]
    yield from _lines(before + opening, parts, closing, after, indent, width)


def _lines(
    head: str,
    parts: list[tuple[str, Tree]],
    closing: str,
    after: str,
    indent: int,
    width: int,
    tail: str = "",
) -> Iterator[str]:
    pad = " " * indent
    if not parts:
        yield f"{pad}{head}{closing}{after}{tail}"
        return
    yield f"{pad}{head}"
    if not any(tree.children for _, tree in parts):
        yield from _filled([f"{label}{tree}," for label, tree in parts], indent + 2, width)
    else:
        for label, tree in parts:
            yield from _tree_lines(label, tree, ",", indent + 2, width)
    yield f"{pad}{closing}{after}{tail}"


def _filled(words: list[str], indent: int, width: int) -> Iterator[str]:
    """Fill lines with words, as few lines as possible."""
    line = " " * indent + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > width:
            yield line
            line = " " * indent + word
        else:
            line += f" {word}"
    yield line
