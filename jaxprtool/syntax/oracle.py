"""Lark's own parser of the whole grammar, `grammar/jaxpr.lark`, for tests of the fast reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from jaxprtool.syntax.releases.earlier import declared_params
from jaxprtool.syntax.scanning.reading import DEFINED_NAME, odd_names
from jaxprtool.syntax.scanning.values import ValueScanner, name_params
from jaxprtool.syntax.tables import grammar_folder
from jaxprtool.syntax.tokens import NUMBER_WORDS

__all__ = ["Layout", "language_parser", "plain_names"]

_APPLIED = frozenset({"PRIMITIVE", "ALONE", "TEXT_PRIMITIVE"})
_NO_OPERANDS = frozenset({"COMMENT", "GOT", "SWAPPED", "STORED", "RAW"})
_READ = frozenset({"ALONE", "RESULT", "LOOSE_RESULT", "NAME", "NAME_READ", "REF"})
_NAMES = _READ | _NO_OPERANDS - {"COMMENT"}
_OPENS = {
    "LAMBDA": "head",
    "JAXPRS_OPEN": "jaxprs",
    **dict.fromkeys(("LBRACE", "LSQB", "LPAR", "DIMS_OPEN", "FREE_BRACE"), "brackets"),
    **dict.fromkeys(("PARAMS_OPEN", "SPACED_OPEN"), "params"),
    **dict.fromkeys(("INDEX_OPEN", "CALL", "FROZENSET", "PYTREE", "SHAPED"), "brackets"),
}  # fmt: skip
_BECOMES = {  # token -> the part of a jaxpr that follows it
    **dict.fromkeys(("DOT", "AUTODIDAX_DOT", "EQUALS"), "body"),
    "RESULT": "left",
    "LOOSE_RESULT": "loose",
    **dict.fromkeys(("RESULTS", "RESULTS_BESIDE"), "results"),
}
_HEADS = frozenset({"head", "arguments", "third"})
_NOWHERE = "EFFECTS"  # the type of a token that may not stand in a head or among equations
_CLOSES = frozenset({"RBRACE", "RSQB", "RPAR"})


class _Open:
    """An open jaxpr or bracket: its kind, and where its current equation begins."""

    def __init__(self, kind: str, unknown: bool = False, line: int = 0):
        self.kind = kind  # `head`, `arguments`, `third` (of three runs of binders), `left`, `loose`, `over`, `body`, `results` of a jaxpr; `params`, ...
        self.unknown, self.line = unknown, line
        self.column = -1  # column of the line that the equation begins; -1 where it begins no line
        self.operands = False  # whether operands may follow
        self.typed = False  # whether a binder has a type

    def spelled(self, token: Any, before: Any) -> str:
        """Return the type of a token in this context, where another type is spelled alike."""
        kind = token.type
        if self.kind in _HEADS:
            # `inf:f32[3]` binds a variable
            if kind in _NAMES or (kind == "SCALAR" and token.isidentifier()):
                return "NAME"
            if kind == "COMMA" and token.start_pos == before.end_pos:
                return "BINDER_COMMA"
            return "DOT" if kind == "AUTODIDAX_DOT" and self.kind != "head" else kind
        if kind in _NAMES and self.kind == "body" and self.operands:
            return "SCALAR" if token in NUMBER_WORDS else "NAME_READ"
        if kind in _NAMES and self.kind == "over":
            return "LOOSE_OVER"
        if kind == "RESULT" and self.kind == "loose":
            return "LOOSE_RESULT"
        if kind == "BINDER_COMMA" or (
            kind == "PARAM_COMMA" and token == "," and self.kind in ("brackets", "jaxprs")
        ):
            return "COMMA"
        if kind == "PARAM_COMMA" and token == ";" and self.kind == "file":
            return "SEPARATOR"
        if kind == "IN" and self.kind == "jaxprs":
            return "JAXPR_NAME"
        if kind == "PROGRAM_NAME" and not token.rstrip("= \t\n").isidentifier():
            return kind
        if kind in ("KEY", "PROGRAM_NAME") and self.kind == "params":
            return "WORD" if self.is_text(token, before) else "KEY"
        return kind

    def end_line(self, token: Any) -> None:
        """Handle a line break among equations: operands may continue after it, or the next equation begins."""
        column = len(token) - token.rfind("\n") - 1
        if token.type == "NEWLINE" and self.operands and 0 <= self.column < column:
            token.type = "CONTINUATION"
        else:
            self.column, self.operands = column, False

    def go_on(self, token: Any) -> None:
        """Handle a token that neither opens nor closes anything, and is no line break."""
        kind = token.type
        if kind == "SEPARATOR":
            self.column, self.operands = -1, False
            if self.kind == "arguments" and self.typed:
                token.type = _NOWHERE
            self.kind = {"head": "arguments", "arguments": "third"}.get(self.kind, self.kind)
        elif kind == "OF" and self.kind in _HEADS:
            self.typed = True
            token.type = _NOWHERE if self.kind == "third" else kind
        elif kind in _NO_OPERANDS:
            self.operands = False
            self.kind = self.kind if kind == "COMMENT" else "body"
        elif kind == "NEWLINE_OVER":
            self.column, self.operands = len(token) - token.rfind("\n") - 1, False
            self.kind = "over"
        elif kind in _BECOMES:
            self.kind = _BECOMES[kind]

    def is_text(self, key: Any, before: Any) -> bool:
        """Whether a token that looks like a key is text: params of an unknown primitive, one a
        line, begin in one column.
        """
        if not self.unknown or (self.column < 0 and key.line == self.line):
            return False
        if self.column < 0:
            self.column = key.column
        return key.column != self.column or key.line == before.end_line


class Layout:
    """Lark's `postlex`: gives tokens types that depend on their context, which no context-free grammar can express.

    A line that continues an equation is indented deeper than the line in which the equation begins.
    Params of an undeclared primitive begin in one column. And tokens of one spelling get different
    types where LALR tables merge states.
    """

    always_accept = ()

    def __init__(self, is_known: Callable[[str], bool]):
        self.is_known = is_known

    def process(self, stream: Iterator[Any]) -> Iterator[Any]:
        """Yield the tokens with the types that their contexts give them; line breaks without a meaning are dropped."""
        opened: list[_Open] = [_Open("file")]
        before: Any = None
        unknown = False  # whether the last primitive is one that nobody declares
        classic = below = False  # whether results may stand alone, and jaxprs below equations
        for token in stream:
            inside = opened[-1]
            token.type = kind = inside.spelled(token, before)
            classic = classic or (kind == "DOT" and "\n" in token)
            below = below or inside.kind == "third" or kind == "AUTODIDAX_DOT"
            if (
                (kind == "OLD_IN" and not classic)
                or (kind == "LAMBDA" and inside.kind == "body" and not below)
                or (kind == "EQUALS" and "\n" in token and inside.kind == "body")
            ):
                token.type = kind = _NOWHERE
            if kind in ("NEWLINE", "LINE_END"):
                if inside.kind != "body":
                    continue
                inside.end_line(token)
            elif kind in _APPLIED:
                inside.operands = True
                unknown = not self.is_known(str(token))
            elif kind in _OPENS:
                opened.append(_Open(_OPENS[kind], unknown, token.line))
            elif kind in _CLOSES and len(opened) > 1:
                opened.pop()
            else:
                inside.go_on(token)
                if kind in ("RESULTS", "RESULTS_BESIDE"):
                    opened.append(_Open("brackets"))
            yield token
            before = token


def plain_names(text: str) -> str:
    """Return the text with identifiers of equal length in the place of names of definitions that
    contain blanks or brackets.

    Only names that are the whole value of a param are replaced, and those that stand on a line of
    their own and hold what looks like a param (`name=in let=3`). Offsets stay as they are; whoever
    builds a program from the tree takes the names from the original text.
    """
    odd = odd_names(set(DEFINED_NAME.findall(text)))
    if any(map(_HOLDS_KEY.search, text.split("\n"))):
        text = _without_keys(text)
    if odd is None:
        return text
    used = re.compile(rf"(?<=[\s\[(,;])([^\W\d]\w*[ \t]*=\s*)({odd.pattern})")
    return used.sub(lambda m: m[1] + re.sub(r"\W", "_", m[2]), text)


_HOLDS_KEY = re.compile(r"^ +[^\W\d]\w*=[^\s=]+ .*=")
_KEY_INSIDE = re.compile(r"[^\s=]+ (?:.* )?[^\W\d]\w*=(?!=)")
_ALONE = re.compile(r"(?m)^( +)([^\W\d]\w*)=")


def _without_keys(text: str) -> str:
    """Return the text with plain words in the place of names on lines of their own that hold keys."""
    values, lines = ValueScanner(text), text.split("\n")
    for m in _ALONE.finditer(text):
        column, above = len(m[1]), lines[: text.count("\n", 0, m.start())]
        primitive, classic = _applied(above, column)
        if m[2] in name_params(primitive):
            end = values.value_end(-1 if classic else column, primitive, m[2], m.end())
            if _KEY_INSIDE.match(text, m.end(), end):
                text = text[: m.end()] + re.sub(r"\W", "_", text[m.end() : end]) + text[end:]
    return text


def _applied(above: list[str], column: int) -> tuple[str, bool]:
    """Return the primitive whose params stand in a column, and whether the first is beside its bracket."""
    for line in reversed(above):
        if line[column - 2 : column] == "[ ":
            return line[: column - 2].split(" ")[-1], True
        if line.endswith("[") and len(line) - len(line.lstrip(" ")) == column - 2:
            return line[:-1].split(" ")[-1], False
    return "", False


def language_parser(is_known: Callable[[str], bool] | None = None) -> Any:
    """Lark's parser of the language, with the start rules `start` (a file), `value` and `free_text` (values of params).

    Args:
      is_known: whether a primitive is declared; by default, whether jaxprtool declares it.
    """
    import lark

    text = (grammar_folder() / "jaxpr.lark").read_text(encoding="utf-8")
    return lark.Lark(
        text,
        parser="lalr",
        lexer="contextual",
        start=["start", "value", "free_text"],
        postlex=Layout(is_known or (lambda name: declared_params(name) is not None)),
        propagate_positions=True,
        keep_all_tokens=True,
        maybe_placeholders=False,
    )
