"""Guess what a person meant where a text is malformed, for error messages."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxprtool.core.primitive import known_primitive
from jaxprtool.ir.synonyms import close_names
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import BINDER, IDENT, LABELS, LOOSE_BINDER, NUMBER_WORDS

__all__ = ["BARE_RESULTS", "LOOSE_START", "Hint", "hint", "operand_hint", "primitive_hint"]

BARE_RESULTS = pattern(
    r"[\s;]*+in[ \t]++(?![^\n]*? = )(?!= |#)([^\s()}][^()}\n]*?)[ \t]*+(?=\}|\n|\Z)"
)
_LET = pattern(r"(?<=\s)let(?=\s|\Z)")
_LAMBDA = pattern(r"lambda\b(?=[^{}\n]*[:.;])")
_NEAR_LAMBDA = pattern(r"\{\s*+(\w++)(?=[^{}\n]*;)")
_VALUE_LAMBDA = pattern(r"=[ \t]*+(lambda)\b[^{}\n]*+\Z")
_NEAR_DEFINITION = pattern(r"let\s++[^\s={}]++\s*+(?=\{\s*+lambda\b)")
_OPEN_RESULTS = pattern(r"[\s;]*+in[ \t]*+(\()")
_NEAR_REFERENCE = pattern(r"[ \t]*+\w++\[[^=\n]*?(?:<-|->|\+=|=\+)[^\n]*+")
_EQUATION = pattern(rf"\s*+{BINDER}(?:\s++{BINDER})*+\s++= ")
_GLUED = pattern(
    rf"[\s;]*+({LOOSE_BINDER}(?:[ \t]++{LOOSE_BINDER})*+)(?:=|[ \t]++=(?=[^\s=]))(?!=)"
)
_NO_PRIMITIVE = pattern(rf"[\s;]*+({LOOSE_BINDER}(?:[ \n]++{LOOSE_BINDER})*+ ++=) (?=#)")
_RESULTS_OF_ONE = pattern(rf"[\s;]*+(?:{BINDER}[ \t]++)++(?=(?!{IDENT}:)(\S++))")
_TORN_TYPE = pattern(
    rf"[\s;]*+(?:{BINDER}[ \t]++)*+{IDENT}:({IDENT}(?:\[[^\]\s]*+|\{{[^}}\s]*+)+)(?=\s|\Z)"
)
LOOSE_START = pattern(
    rf"\s*+({IDENT}) = ({IDENT})(?=[ \[])"
)  # the start of an equation whose results have no types
# Among the results of an equation, or right behind its `=`.
_ODD_BLANK = pattern(r"\s*+(?:[^\n#=]*?([^\S \r\n])[^\n#=]*=|[^\n#=]*=([^\S \r\n]))")
_PARENTHESIS = pattern(r"\s*\((?=\{ lambda|let )")
_BINDER = pattern(BINDER)
_NAME = pattern(IDENT)
_CALLED = pattern(rf"({IDENT})\(([^()]*)\)")
_OF_REFERENCES = "`c:f32[] <- a[0]` reads, `a[0] <- b` writes, `a[0] += b` adds"


class Hint(NamedTuple):
    """A message, the range that it points to, and how to mend the fault."""

    message: str
    start: int
    end: int
    help: str = ""


def hint(text: str, at: int, expected: list[str]) -> Hint | None:
    """Return a better message than what the grammar expected at an offset, if there is one.

    Args:
      text: the whole text.
      at: the offset of what does not fit.
      expected: the labels of what would fit.
    """
    if LABELS["OUTS"] in expected and (m := BARE_RESULTS.match(text, at)):
        names = [w for w in re.split(r"[\s,\[\]]+", m[1]) if w]
        right = f"in ({', '.join(names)}{',' * (len(names) == 1)}) }}"
        message = "the results of a jaxpr stand in parentheses"
        return Hint(message, m.start(1), m.end(1), f"write `{right}`")
    if LABELS["OUTS"] in expected and (m := _OPEN_RESULTS.match(text, at)):
        message = "the parenthesis of the results is not closed"
        return Hint(message, m.start(1), m.end(1), "results are written `in (a, b) }`")
    if LABELS["EQUATION"] in expected and (m := _GLUED.match(text, at)):
        return Hint("`=` needs a blank on both sides", m.start(1), m.end(), f"write `{m[1]} = `")
    if LABELS["EQUATION"] in expected and (m := _NO_PRIMITIVE.match(text, at)):
        return Hint("an equation without a primitive", *m.span(1), "what follows `#` is a comment")
    if LABELS["EQUATION"] in expected and (found := _equation_hint(text, at)):
        return found
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
    if LABELS["LAMBDA"] in expected:
        return _start_hint(text, at)
    if LABELS["KEY"] in expected:
        return _params_hint(text, at, expected)
    if LABELS["RBRACE"] in expected and at < len(text):
        return _end_hint(text, at)
    return None


def _equation_hint(text: str, at: int) -> Hint | None:
    """Return the hint where an equation begins with typed results, and does not go on."""
    if m := _ODD_BLANK.match(text, at):
        blank = m[1] or m[2]
        found = "a tab" if blank == "\t" else f"U+{ord(blank):04X}"
        return Hint(f"a blank has to stand here, and not {found}", *m.span(m.lastindex or 0))
    if m := _TORN_TYPE.match(text, at):
        return Hint(f"malformed type {m[1]}", m.start(1), m.end(1))
    m = _RESULTS_OF_ONE.match(text, at)
    if m is None:
        return None
    if m[1] == "<-":
        start = text.find(text[at:].split()[0], at)
        return Hint("malformed equation on a reference", start, m.end(1), _OF_REFERENCES)
    message = f"expected `=` after the results of an equation, found `{m[1][:30]}`"
    return Hint(message, m.start(1), m.end(1))


def _start_hint(text: str, at: int) -> Hint | None:
    """Return the hint where a jaxpr, or a definition of one, has to begin."""
    help = "write `{ lambda ; ...`"
    if m := _LAMBDA.match(text, at):
        return Hint("a jaxpr begins with a brace", m.start(), m.end(), help)
    if (m := _NEAR_LAMBDA.match(text, at)) and close_names(m[1], ["lambda"]):
        return Hint("a jaxpr begins with `{ lambda`", m.start(1), m.end(1), help)
    if m := _NEAR_DEFINITION.match(text, at):
        message = "a definition has a `=` before its jaxpr"
        return Hint(message, m.end(), m.end() + 1, "write `let f = { lambda`")
    return None


def _params_hint(text: str, at: int, expected: list[str]) -> Hint | None:
    """Return the hint where a param, or the end of the params, is expected."""
    line = text.rfind("\n", 0, at) + 1
    if m := _VALUE_LAMBDA.search(text, line, at):
        message = "a jaxpr begins with a brace"
        return Hint(message, m.start(1), m.end(1), "write `{ lambda ; ...`")
    if m := _NEAR_REFERENCE.match(text, line):
        start, end = line + len(m[0]) - len(m[0].lstrip()), m.end()
        return Hint("malformed equation on a reference", start, end, _OF_REFERENCES)
    if LABELS["RSQB"] in expected and (_EQUATION.match(text, at) or LOOSE_START.match(text, at)):
        end = len(text[:at].rstrip())
        return Hint("a `]` is missing after the params", end, end)
    return None


def _end_hint(text: str, at: int) -> Hint | None:
    """Return the hint where the brace that closes a jaxpr is expected."""
    if text.startswith(":", at):
        return Hint("effects stand in braces", at, at + 1, "write `in (a,) : { Debug } }`")
    end = len(text[:at].rstrip())
    if "\n" not in text[end:at]:
        return None
    return Hint("a `}` is missing at the end of a jaxpr", end, end)


def _header_hint(text: str, at: int) -> Hint | None:
    start = text.rfind("lambda", 0, at)
    if start >= 0 and (m := _LET.search(text, start, at)):
        return Hint("a dot is missing before `let`", m.start(), m.end(), "write `. let`")
    if text.startswith(".", at) and ";" not in text[start:at]:
        help = "constants stand before the `;`, arguments after it: `{ lambda ; a:f32[3]. let`"
        return Hint("a `;` is missing after `lambda`", at, at + 1, help)
    return None


def operand_hint(words: str, start: int) -> Hint | None:
    """Return the hint for operands that contain a whole equation; None for others."""
    found = list(re.finditer(r"\S+", words))
    at = next((i for i, m in enumerate(found) if m[0] == "="), -1)
    if at < 0:
        return None
    if at and _NAME.fullmatch(found[at - 1][0]):
        at -= 1  # a result without a type
    while (
        at > 0
        and _is_result(found[at - 1][0])
        and "\n" not in words[found[at - 1].end() : found[at].start()]
    ):
        at -= 1
    first = found[at]
    message, help = (
        "a second equation begins on the line of another",
        "put `;` or a line break before it",
    )
    if at and "\n" in words[found[at - 1].end() : first.start()]:
        message = "a second equation begins on a line that continues another"
        help = "lines that are indented deeper continue an equation; all of a jaxpr begin in one column"
    return Hint(message, start + first.start(), start + first.end(), help)


def _is_result(word: str) -> bool:
    """Whether a word may be the result of an equation; `inf:f32[]` is a literal."""
    return bool(_BINDER.fullmatch(word)) and word.partition(":")[0] not in NUMBER_WORDS


def primitive_hint(name: str) -> str:
    """Return the help for a primitive that is written as a function call; "" for any other."""
    m = _CALLED.fullmatch(name)
    if m is None or known_primitive(m[1]) is None:
        return ""
    operands = " ".join(m[2].replace(",", " ").split())
    return f"operands follow the name without parentheses: {m[1]} {operands or 'a'}"
