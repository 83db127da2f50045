"""Results of programs as text, JSON and files, in the trees that they form."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import LEAF, Interface, Tree
from jaxprtool.ir.jaxpr import Value

__all__ = ["check_output", "packed", "shown"]

_WIDTH = 80


def shown(
    results: Sequence[Value], interface: Interface | None = None, *, as_json: bool = False
) -> list[str]:
    """Return results as lines: for people, or one line of JSON.

    Where the program has an interface the lines show the tree of the results. In JSON the tree
    holds their positions: `{"outs": [...], "tree": {"loss": 0, "h": [1, 2]}, "schema": 1}`.
    """
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    tree = None if interface is None else interface.result
    if as_json:
        document: dict[str, Any] = {"outs": [arrays.result_json(x) for x in results]}
        if tree is not None:
            document["tree"] = _positions(tree, iter(range(len(results))))
        document["schema"] = 1
        return [json.dumps(document)]
    texts = [arrays.result_text(x) for x in results]
    if tree is None or tree == LEAF:
        return texts
    return [*_lines("", tree, iter(texts), "", 0)]


def _positions(tree: Tree, positions: Iterator[int]) -> Any:
    """Return the tree in JSON, with the position of each leaf."""
    if tree.kind == "leaf":
        return next(positions)
    if tree.kind == "none":
        return None
    below = [_positions(child, positions) for child in tree.children]
    if tree.kind == "dict" or (tree.kind == "object" and None not in tree.keys):
        return {str(k): x for k, x in zip(tree.keys, below, strict=True)}
    return below


def _lines(label: str, tree: Tree, texts: Iterator[str], after: str, indent: int) -> Iterator[str]:
    """Return the lines of a tree with the texts of its leaves, on one line where it fits."""
    pad = " " * indent
    if tree.kind == "leaf":
        first, *rest = f"{pad}{label}{next(texts)}{after}".split("\n")
        yield first
        yield from [pad + " " * len(label) + line for line in rest]
        return
    inside = [next(texts) for _ in range(tree.size)]
    flat = pad + label + tree.filled(iter(inside)) + after
    if len(flat) <= _WIDTH and "\n" not in flat:
        yield flat
        return
    opening, closing = tree.brackets()
    yield f"{pad}{label}{opening}"
    left = iter(inside)
    for name, child in zip(tree.labels(), tree.children, strict=True):
        yield from _lines(name, child, left, ",", indent + 2)
    yield f"{pad}{closing}{after}"


def check_output(path: str) -> None:
    """Raise UsageError for a file that results cannot be written to, judging by its name."""
    if not path.endswith((".npy", ".npz")) and (not os.path.exists(path) or os.path.isfile(path)):
        stem = path.rpartition(".")[0] or path
        fail(
            UsageError,
            f"-o {path}: results are written to .npz and .npy files",
            "output-kind",
            help=f"-o {stem}.npz, or `> {path}` for the text",
        )


def packed(results: Sequence[Value], path: str, interface: Interface | None = None) -> bytes:
    """Return results as the bytes of a `.npy` or `.npz` file.

    The arrays are named by their paths in the tree (`loss`, `params["w"]`, `out0` for the first of
    a tuple or the only one), so that `--args` finds those with the names of arguments; without an
    interface `out0`, `out1`, ...
    """
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    names = [f"out{i}" for i in range(len(results))]
    if interface is not None:
        names = _names(interface.result)
    return arrays.pack(results, path, names)


def _names(tree: Tree) -> list[str]:
    """The name of each leaf of the results in a file."""
    if tree.kind == "leaf":
        return ["out0"]
    keys = tree.keys if tree.kind in ("dict", "object") else [None] * len(tree.children)
    firsts = [
        k if isinstance(k, str) else f"out{i if k is None else k}" for i, k in enumerate(keys)
    ]
    pairs = zip(firsts, tree.children, strict=True)
    return [first + path for first, child in pairs for path in child.paths()]
