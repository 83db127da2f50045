"""Static arguments of `trace`, from their text."""

from __future__ import annotations

import ast
from typing import Any

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["parse_static"]


def parse_static(text: str) -> tuple[str, Any]:
    """Return the name and the value in `name=value`: a Python literal, `true` or `false`, or else a string.

    Raises:
      UsageError: there is no `=`, or no name before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        fail(UsageError, f"--static {text}: not of the form name=value", "bad-static")
    if value in ("true", "false"):
        return name.strip(), value == "true"
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value
