"""What a person probably meant where the text goes wrong, in words."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import BINDER, IDENT, LABELS, LOOSE_BINDER, NUMBER_WORDS

__all__ = ["BARE_RESULTS", "Hint", "hint", "operand_hint", "primitive_hint"]

BARE_RESULTS = pattern(
    r"[\s;]*+in[ \t]++(?![^\n]*? = )(?!= )([^\s()}][^()}\n]*?)[ \t]*+(?=\}|\n|\Z)"
)
_LET = pattern(r"(?<=\s)let(?=\s|\Z)")
_LAMBDA = pattern(r"lambda\b(?=[^{}\n]*[:.;])")
_GLUED = pattern(
    rf"[\s;]*+({LOOSE_BINDER}(?:[ \t]++{LOOSE_BINDER})*+)(?:=|[ \t]++=(?=[^\s=]))(?!=)"
)
_PARENTHESIS = pattern(r"\s*\((?=\{ lambda|let )")
_BINDER = pattern(BINDER)
_CALLED = pattern(rf"({IDENT})\(([^()]*)\)")


class Hint(NamedTuple):
    """A message, where it points, and how to mend it."""

    message: str
    start: int
    end: int
    help: str = ""


def hint(text: str, at: int, expected: list[str]) -> Hint | None:
    """What to say instead of what the grammar expected at an offset, if anything is better.

    Args:
      text: the whole text.
      at: where what follows does not fit.
      expected: the labels of what would.
    """
    if LABELS["OUTS"] in expected and (m := BARE_RESULTS.match(text, at)):
        names = [w for w in re.split(r"[\s,]+", m[1]) if w]
        right = f"in ({', '.join(names)}{',' * (len(names) == 1)}) }}"
        message = "the results of a jaxpr stand in parentheses"
        return Hint(message, m.start(1), m.end(1), f"write `{right}`")
    if LABELS["EQUATION"] in expected and (m := _GLUED.match(text, at)):
        return Hint("`=` needs a blank on both sides", m.start(1), m.end(), f"write `{m[1]} = `")
    if LABELS["$END"] in expected and (m := _PARENTHESIS.match(text)):
        help = "`(jaxpr, shapes)` is what JAX prints under return_shape=True"
        return Hint("the parenthesis before the jaxpr is not closed", m.end() - 1, m.end(), help)
    if text.startswith("#", at):
        return Hint("a comment has a blank before its `#`", at, at + 1, "write ` #`")
    if LABELS["DATA"] in expected and at < len(text) and text[:at].rstrip()[-1:] != "=":
        help = "its elements are separated by commas, and every `[` has its `]`"
        return Hint("the list of numbers is not closed", at, at + 1, help)
    if LABELS["DOT"] in expected:
        return _header_hint(text, at)
    if LABELS["LAMBDA"] in expected and (m := _LAMBDA.match(text, at)):
        return Hint("a jaxpr begins with a brace", m.start(), m.end(), "write `{ lambda ; ...`")
    return None


def _header_hint(text: str, at: int) -> Hint | None:
    start = text.rfind("lambda", 0, at)
    if start >= 0 and (m := _LET.search(text, start, at)):
        return Hint("a dot is missing before `let`", m.start(), m.end(), "write `. let`")
    if text.startswith(".", at) and ";" not in text[start:at]:
        help = "constants stand before the `;`, arguments after it: `{ lambda ; a:f32[3]. let`"
        return Hint("a `;` is missing after `lambda`", at, at + 1, help)
    return None


def operand_hint(words: str, start: int) -> Hint | None:
    """What to say of operands among which a whole equation stands."""
    found = list(re.finditer(r"\S+", words))
    at = next((i for i, m in enumerate(found) if m[0] == "="), -1)
    if at < 0:
        return None
    while (
        at > 0
        and _is_result(found[at - 1][0])
        and "\n" not in words[found[at - 1].end() : found[at].start()]
    ):
        at -= 1
    first = found[at]
    message = "a second equation begins on the line of another"
    return Hint(
        message, start + first.start(), start + first.end(), "put `;` or a line break before it"
    )


def _is_result(word: str) -> bool:
    """Whether a word may be the result of an equation: `inf:f32[]` is a literal."""
    return bool(_BINDER.fullmatch(word)) and word.partition(":")[0] not in NUMBER_WORDS


def primitive_hint(name: str) -> str:
    """The help for a primitive that is written as a function call; "" for any other."""
    m = _CALLED.fullmatch(name)
    if m is None or m[1] not in PRIMITIVES:
        return ""
    operands = " ".join(m[2].replace(",", " ").split())
    return f"operands follow the name without parentheses: {m[1]} {operands or 'a'}"
