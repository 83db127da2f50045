"""The codes of all messages, as the source of the package has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

PACKAGE = Path(__file__).parents[2] / "jaxprtool"
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# What is given a message, and its code after it.
_GIVEN = {"fail", "ill_typed", "Diagnostic", "report", "add", "warn", "_refuse", "_fail"}


def codes() -> dict[str, str]:
    """Each code, with a place where it is."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, code in _in_tree(ast.parse(path.read_text())):
            found.setdefault(code, f"{path.relative_to(PACKAGE)}:{line}")
    return found


def _is_code(node: ast.expr | None) -> TypeGuard[ast.Constant]:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and bool(_CODE.fullmatch(value))


def _in_tree(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            given = node.args[1:] if name in _GIVEN else []
            values = [*given[:2], *(k.value for k in node.keywords if k.arg == "code")]
        elif isinstance(node, ast.ClassDef):
            values = [_assigned(x, "code") for x in node.body]
        elif isinstance(node, ast.FunctionDef):
            values = _default(node.args, "code")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ARRAY_LIMIT":
            values = [node.value]
        else:
            continue
        for value in values:
            either = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
            yield from ((x.lineno, str(x.value)) for x in either if _is_code(x))


def _assigned(node: ast.stmt, name: str) -> ast.expr | None:
    """What a statement of a class gives a name."""
    if isinstance(node, ast.AnnAssign):
        return node.value if ast.unparse(node.target) == name else None
    if isinstance(node, ast.Assign):
        return node.value if ast.unparse(node.targets[0]) == name else None
    return None


def _default(args: ast.arguments, name: str) -> list[ast.expr | None]:
    """What an argument of a function is by default."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(positional) - len(args.defaults)), *args.defaults, *args.kw_defaults]
    names = [a.arg for a in (*positional, *args.kwonlyargs)]
    return [d for n, d in zip(names, defaults, strict=True) if n == name]
