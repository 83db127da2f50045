"""retraces: find why JAX traced functions again, from the log of a run."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.analyses.cache_misses import misses
from jaxprtool.analyses.retraces_answer import KEYS, Retraces
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["retraces"]


def retraces(logs: str | Sequence[str], *, by: str = "site", top: int = 20) -> Retraces:
    """Summarise the cache misses that a run has logged.

    Args:
      logs: the text of a log, or several.
      by: `site`, `function` or `reason`.
      top: the number of groups that are shown.

    Raises:
      UsageError: an invalid option.
    """
    if by not in KEYS:
        fail(UsageError, f"by {by!r}: it is one of {', '.join(KEYS)}", "option")
    if top < 1:
        fail(UsageError, f"--top {top}: at least one row is shown", "option")
    texts = [logs] if isinstance(logs, str) else logs
    return Retraces((m for text in texts for m in misses(text)), by, top)
