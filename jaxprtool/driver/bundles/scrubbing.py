"""Remove the names and the values of the original from bundles, as far as they still show the same failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxprtool.analyses.reduction.candidate import Candidate, first_candidate
from jaxprtool.analyses.reduction.values import neutral, not_generated
from jaxprtool.driver.bundles.packing import packed_args
from jaxprtool.driver.bundles.replaying import Outcome, executed
from jaxprtool.driver.reducing.interest import names_in, normalised
from jaxprtool.driver.reducing.small import as_read
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.storage.output import program_text
from jaxprtool.ir.jaxpr import Value
from jaxprtool.syntax.parse import parse

__all__ = ["Scrubbed", "scrubbed"]

_BAD = ("nan", "inf")
_WORD = re.compile(r"[a-z]+")


class Scrubbed(NamedTuple):
    """A program for sharing.

    Attributes:
      text: its text.
      values: the values of its arguments; None where the command takes none.
      kept: the names of arguments that still hold values of the original.
    """

    text: str
    values: Sequence[Value] | None
    kept: Sequence[str]


def scrubbed(
    text: str,
    values: Sequence[Value] | None,
    verb: str,
    options: Sequence[Sequence[str]],
    outcome: Outcome,
    limit: float,
) -> Scrubbed:
    """Return a program with neutral names, without origins, and with random values, for which its
    command ends in the same way.

    The status stays the same, the message except for names, types and numbers, and whether the
    output has a NaN or an infinity.

    Args:
      text: the text of the program.
      values: the values of its arguments; None where the command takes none.
      verb, options: the command.
      outcome: how it ended.
      limit: the seconds that it may take each time.

    Raises:
      JaxprToolError: the text cannot be read.
    """
    program = load_constants(parse(text))
    names = names_in(program.jaxpr)

    def is_same(c: Candidate) -> bool:
        args = packed_args(as_read(c), c.args)
        found = executed(verb, options, program_text({"": c.program}), args, limit)
        return _kind(found, names_in(as_read(c).jaxpr)) == wanted

    wanted = _kind(outcome, names)
    current = neutral(first_candidate(program, values), is_same)
    read = as_read(current)
    return Scrubbed(program_text({"": read}), current.args, not_generated(current, read.jaxpr))


def _kind(outcome: Outcome, names: set[str]) -> tuple[int | None, str, frozenset[str]]:
    """Return the parts of an outcome that have to stay the same."""
    first = next((x for x in outcome.messages.splitlines() if "error" in x), "")
    words: set[str] = {*_WORD.findall(outcome.output.lower())} if outcome.status == 0 else set()
    return outcome.status, normalised(first, names), frozenset(words & {*_BAD})
