"""Lines of equations: operands may continue in lines that are indented deeper than the equation."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from jaxprtool.syntax.patterns import everywhere
from jaxprtool.syntax.scanning.blocks import Block
from jaxprtool.syntax.scanning.reading import AfterLine, Reading, nowhere
from jaxprtool.syntax.tokens import ATOMS

__all__ = ["Line", "Lines", "start_of"]

# An equation on a line: the match of its binders and its name, its params, and the offsets of its operands.
Line: TypeAlias = "tuple[re.Match[str], Block | None, int, int]"

_OPERANDS = everywhere(ATOMS)


@lru_cache(maxsize=256)
def _deeper(column: int) -> AfterLine:
    """Return a pattern for line breaks before a line that is indented deeper than `column`, up to
    its first character.
    """
    deeper = rf" {{{column + 1},}}+[^\S\n]*+|(?! *+\S)[^\S\n]{{{column + 1},}}+"
    # ` *+` takes the blanks of an indentation several times faster than a class does
    return re.compile(rf"[^\S\n]*+\n(?: *+[^\S\n]*+\n)*+(?:{deeper})").match


def start_of(match: re.Match[str]) -> int:
    """Return where an equation starts: with its binders, if it has some."""
    return match.start(2) if match[2] else match.start(3)


class Lines:
    """Reads runs of operands over several lines."""

    def __init__(self, reading: Reading):
        self.text, self.tokens = reading.text, reading.tokens
        self._after: dict[str, AfterLine] = {}

    def continued(self, blank: str) -> AfterLine:
        """Return the matcher for a line that continues an equation; `blank` is the space before the equation."""
        found = self._after.get(blank)
        if found is None:
            _, newline, indent = blank.rpartition("\n")
            begins = newline and ";" not in indent  # what follows a `;` begins no line
            found = self._after[blank] = _deeper(len(indent)) if begins else nowhere
        return found

    def end_of_operands(self, pos: int, after_line: AfterLine) -> int:
        """Return where the operands that begin at an offset end."""
        text = self.text
        end = _OPERANDS.match(text, pos).end()
        while m := after_line(text, end):
            indent = m.end()
            more = _OPERANDS.match(text, indent - 1).end()
            if more <= indent or text.startswith("= ", indent):
                break  # the next equation, without results
            end = more
        return end

    def operands(self, pos: int, after_line: AfterLine) -> int:
        """Add the token of the operands that begin at an offset; return where they end."""
        end = self.end_of_operands(pos, after_line)
        self.tokens.append(("OPERANDS", self.text[pos:end], pos, end))
        return end
