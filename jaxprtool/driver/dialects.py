"""Programs that are written for an earlier release of JAX, with the operations that it had."""

from __future__ import annotations

from collections.abc import Mapping

from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.earlier import in_earlier_words
from jaxprtool.syntax import print as printing
from jaxprtool.syntax.releases.dialects import find_dialect, says_all

__all__ = ["for_dialect", "format_jaxpr", "sayable"]


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


def format_jaxpr(
    program: ClosedJaxpr,
    style: str = "jax",
    lossless: bool = False,
    width: int = 80,
    dialect: str = "",
) -> str:
    """Return the text of a program, as JAX prints it; `str(program)` is the same.

    JAX's print drops weak types, derivative rules of custom functions, and params such as `inline`
    of `jit`: only with `lossless` does the text read back as the same program.

    Args:
      program: the program; known consts are written in `where` sections.
      style: "jax" for JAX's layout, "autodidax" for the tutorial's.
      lossless: also write what JAX's print drops: weak types, and params that JAX hides.
      width: the width of a line, as far as layout can keep to it.
      dialect: the release of JAX whose print to write, `jax-0.10.2`; "" for the one that the
        program was read in, or, for a program that was made anew, that of the installed JAX
        (without one, the newest). For an earlier release, operations that came later are written
        with those that it had, as `fmt --dialect` does.

    Returns:
      The text, without a line break at its end.

    Raises:
      UsageError: there is no such style, or no such dialect.
      UnsupportedError: the dialect cannot express the program.
    """
    if style == "jax":
        program = sayable({"": program}, dialect)[""]
    return printing.format_jaxpr(program, style, lossless, width, dialect)
