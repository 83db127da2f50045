"""Comments that tell lint to ignore findings: `# jaxpr: ignore=dead-equation,key-reuse`, or `#
jaxpr: ignore` for every rule.

A comment at the end of an equation's line, or above it, is for the equation. One above the program
is for findings at arguments, results and constants, and with `ignore-file` (`# jaxpr:
ignore-file=weak-input`) for the whole program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.linter.registry import Found

__all__ = ["is_ignored"]

_COMMENT = re.compile(
    r"#\s*jaxpr:\s*ignore(-file)?(?:\s*=\s*([\w-]+(?:\s*,\s*[\w-]+)*))?\s*(?=#|$)"
)


def is_ignored(program: ClosedJaxpr, code: str, found: Found) -> bool:
    """Whether a comment in the text tells lint to ignore something that was found."""
    head = (program.jaxpr.comments or {}).get("head", ())
    if _says(head, code, True) or (found.place is None and _says(head, code, False)):
        return True
    return found.place is not None and _says(found.place.eqn.comments or (), code, False)


def _says(comments: Iterable[str], code: str, whole_file: bool) -> bool:
    """Whether one of the comments names a code to ignore, with `ignore-file` or with `ignore`."""
    for comment in comments:
        for m in _COMMENT.finditer(comment):
            codes = m[2] and re.split(r"\s*,\s*", m[2])
            if bool(m[1]) == whole_file and (not codes or code in codes):
                return True
    return False
