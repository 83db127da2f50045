"""Convert XLA's exceptions to messages."""

from __future__ import annotations

import re
from typing import NoReturn

from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail

__all__ = ["cannot_run", "reason"]


def cannot_run(error: RuntimeError) -> NoReturn:
    """Report that a compiled program failed."""
    if "RESOURCE_EXHAUSTED" in str(error):
        fail(UsageError, f"the program is too large to run: {reason(error)}", "too-large")
    fail(UnsupportedError, f"XLA could not run the program: {reason(error)}", "xla-run")


_RAISED = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt)): (?:error: )?(.*)", re.MULTILINE
)


def reason(error: Exception) -> str:
    """Return the first line of XLA's message; for a Python function that failed, its exception."""
    if "error calling callback" in str(error) and (found := _RAISED.findall(str(error))):
        return f"a Python function raised {': '.join(found[-1])}"
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
