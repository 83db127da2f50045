"""Programs that are written for an earlier release of JAX, with the operations that it had."""

from __future__ import annotations

from collections.abc import Mapping

from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.earlier import in_earlier_words
from jaxprtool.syntax.releases.dialects import find_dialect, says_all

__all__ = ["for_dialect", "sayable"]


def for_dialect(
    programs: Mapping[str, ClosedJaxpr], dialect: str
) -> tuple[dict[str, ClosedJaxpr], list[Diagnostic]]:
    """Return programs as a release can express them: operations that came later are written with those that it had.

    Args:
      programs: by name.
      dialect: the name of the dialect, `jax-0.4.30`.

    Returns:
      The programs, and notes on the equations that are replaced (see `in_earlier_words`). What has
        no counterpart there stays as it is.

    Raises:
      UsageError: there is no such dialect.
    """
    meant = find_dialect(dialect)
    notes: list[Diagnostic] = []
    made: dict[str, ClosedJaxpr] = {}
    for name, program in programs.items():
        made[name], found = in_earlier_words(program, meant)
        notes += found
    return made, notes


def sayable(programs: Mapping[str, ClosedJaxpr], dialect: str) -> Mapping[str, ClosedJaxpr]:
    """Return programs for a dialect as `for_dialect` does, without the notes; the same ones where it has words for all.

    Raises:
      UsageError: there is no such dialect.
    """
    if not dialect or says_all(programs.values(), dialect):
        return programs
    return for_dialect(programs, dialect)[0]
