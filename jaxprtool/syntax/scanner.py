"""The scanner: a text to the coarse tokens of the grammar.

It is a machine of a few states (module, header, equations, params, jaxprs in parentheses) with a stack of what is
open, so nesting costs no recursion. Layout is used where only layout tells: lines that continue an equation are
indented deeper than it, and a param's value that is arbitrary text ends where the next key or the
closing bracket stands in its column.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.ir.spans import Source
from jaxprtool.syntax.comments import CommentScanner
from jaxprtool.syntax.earlier_releases import OLDER
from jaxprtool.syntax.hints import BARE_RESULTS
from jaxprtool.syntax.interface import match_args, scan_interface
from jaxprtool.syntax.refs import RAW_EQUATION
from jaxprtool.syntax.tokens import ATOMS, BINDER, IDENT, LOOSE_BINDER, STORED, Token
from jaxprtool.syntax.values import ValueScanner, free_params

__all__ = ["Scanner", "scan"]

_blank = re.compile(r"\s*+").match
_gap = re.compile(r"[\s;]*+").match
_LET = re.compile(r"let ([^\n]{1,200}?) = (?=\{ lambda\b)")
_DEFINED = re.compile(r"(?<![\w.])(?<!\. )let ([^\n]{1,200}?) = \{ lambda\b")
_NAMED = re.compile(r"(?<!\S)([\w.\-]++)\s*+=\s*+(?=\{ lambda\b|let [^\n]{1,200}? = \{ lambda\b|#)")
_LAMBDA = re.compile(r"\{\s*+lambda\b")
_BINDERS = re.compile(rf"\s*+((?:{LOOSE_BINDER}(?:,\s*+|\s++|(?=[;.])))++)")
_SEMICOLON = re.compile(r"\s*+;")
_DOT = re.compile(r"\s*+\.(?:\s*+let\b)?+(?=[\s;]|\Z)")
_EQUATION = re.compile(rf"([\s;]*+)(?<![^\s;])((?:{BINDER}[ \n]++)++)= ([^\s\[;]++)")
_LOOSE_BINDERS = re.compile(rf"[ \n]*+(?:{LOOSE_BINDER}(?:[ ]++|(?=\n)))++")  # on a line
_LOOSE_EQUATION = re.compile(
    rf"([\s;]*+)(?<![^\s;])((?:{LOOSE_BINDER}(?:[ ]*+\n)?+[ ]++)++)= ([^\s\[=;]++)(?=[\s\[;]|\Z)"
)
_NO_RESULT = re.compile(
    r"([\s;]*+)()(?<![^\s;])(?:= )?+((?!in[ \n])[^\W\d][^\s\[\](){}=:,;]*+)(?=[ \[\n;]|\Z)"
)
_REF = rf"(?:{IDENT}|\((?:[^()\n]|\([^()\n]*+\))*+\))(?:\[(?:[^\[\],\n]++(?:,[^\[\],\n]++)*+)?+\]|\{{[^{{}}\n]*+\}})++"
_REFERENCE = re.compile(
    rf"[\s;]*+(?<![^\s;])({RAW_EQUATION}|(?:({LOOSE_BINDER})(?:, {_REF})?+|{_REF})(?: <- | \+= )"
    rf"(?:{_REF}(?:, {STORED})?+|(?!in \(){STORED})(?: (?:mask|other)=[^\s;]++)*+)"
    r"(?=[ \t]++#|[ \t]*+(?:[\n;]|in \(|\Z))"
)
_OPERANDS = re.compile(ATOMS)
_OUTS = re.compile(r"[\s;]*+(?<![^\s;])in \(((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+)\)")
_EFFECTS = re.compile(r"\s*+: \{([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}")
_RBRACE = re.compile(r"\s*+\}")
_TAME = re.compile(r"[^\s\[\](){},;=]+")
_IN = re.compile(r"\s*+in(?=\s|\Z)")
_SUBJAXPR = re.compile(r"\s*+(?=\{ lambda\b)")
_WHERE = re.compile(r"\s*+where(?=\s)(?![ \t]*+=(?!=))")
_WEAK = re.compile(r"\s*+weak((?: +[^\W\d]\w*+)++)[ ]*+(?=\n|\Z|[\])}])")
_CONST = re.compile(rf"\s*+({IDENT}) = (?!\s*+(?:\{{ lambda|let ))\s*+")
_PROGRAM_ENDS = frozenset({"RBRACE", "WHERE", "DATA", "WEAK"})
_SIGNATURE_END = re.compile(r"\s*+, .*\)\s*+\Z", re.DOTALL)


_nowhere = re.compile(r"(?!)").match  # after an equation that begins no line


@lru_cache(maxsize=256)
def _deeper(column: int) -> Callable[[str, int], re.Match[str] | None]:
    """Matches line breaks, of which the last is before a line indented deeper than `column`, up to what stands there."""
    return re.compile(rf"(?:[^\S\n]*+\n)++[^\S\n]{{{column + 1},}}+").match


@lru_cache(maxsize=256)
def _plain_param(column: int) -> re.Pattern[str]:
    """`key=value` for a value without brackets in it but parentheses, in block layout with keys in `column`."""
    return re.compile(
        rf"\n {{{column}}}({IDENT})=([^\s\[\](){{}}'\"<=#]++(?<![,;])|\([^()\[\]{{}}'\"<=#]*+\))"
        rf"(?=\n {{{column}}}{IDENT}=(?!=)|\n {{{max(column - 2, 0)}}}\])"
    )


_KEY = re.compile(
    rf"\s*+[,;]?+\s*+(?<![)}}])({IDENT})[ \t]*+=(?!=)(?:[ \t]++(?!{IDENT}[ \t]*+=(?!=)|{IDENT}:{IDENT}\[|\]))?+"
)
_PLAIN_FLAT = re.compile(
    rf"\s*+(?<![)}}])({IDENT})=([^\s\[\](){{}}'\"<=#]++(?<![,;])|\([^()\[\]{{}}'\"<=#]*+\))(?=\s++{IDENT}=(?!=)|\s*+\])"
)
_FREE_KEY = re.compile(rf"\s*+[,;]?+\s*+({IDENT})=")  # its value may begin with `=`
_BEFORE_VALUE = re.compile(rf"\s++(?!{IDENT}[ \t]*+=|{IDENT}:{IDENT}\[|[\],;#])")
_JAXPR = re.compile(r"\s*+(?=\{\s*+lambda\b)")
_JAXPRS = re.compile(r"\((?=\s*+(?:[^\s(),\[\]{}]++\s++)*+\{ lambda\b)")
_NAME = re.compile(r"\s*+([^\s(){}\[\]:;,=#][^\s(){}=]*+)")
_CLOSE = re.compile(r"\s*+[,;]?+\s*+\]")


def _odd_names(names: set[str]) -> re.Pattern[str] | None:
    """A pattern of the definitions' names that hold blanks or brackets, or None."""
    odd = sorted((re.escape(n) for n in names if not _TAME.fullmatch(n)), reverse=True)
    return re.compile(rf"(?:{'|'.join(odd)})(?=[\s\])])") if odd else None


class Block:
    """Params in brackets, by which the same text is known where it comes again after the same primitive.

    Attributes:
      text: from `[` to `]`.
      start: where it was read first.
      params: the keys and the values between the brackets there.
    """

    __slots__ = ("params", "start", "text")

    def __init__(self, text: str, start: int, params: list[tuple[Token, Token]]):
        self.text, self.start, self.params = text, start, params


@lru_cache
def _repeats(primitive: str) -> bool:
    """Whether the text of a primitive's params says by itself where it ends."""
    found = PRIMITIVES.get(primitive)
    if found is None or primitive in OLDER:
        return False
    return all(p.kind.spelling == "value" for p in found.params.values())


_WORDS = re.compile(IDENT)
_LAMBDA_INSIDE = re.compile(r"\{\s*+lambda\b")
_BLOCKS = 8  # that are looked for after each primitive
_LONGEST_BLOCK = 500  # characters


class _Frame:
    """Something open: a jaxpr's equations, a list of params, a tuple of jaxprs, a definition."""

    __slots__ = ("after_line", "column", "equation", "first", "kind", "primitive", "start")

    def __init__(self, kind: str, start: int):
        self.kind, self.start = kind, start
        self.column, self.primitive, self.after_line, self.equation = -1, "", _nowhere, 0
        self.first = 0


def scan(source: Source) -> Scanner:
    """Scan a whole text. The tokens are in `.tokens`; what is still open at its end in `.open`."""
    scanner = Scanner(source)
    scanner.run()
    return scanner


class Scanner:
    """The state of a scan.

    Attributes:
      tokens: what was found; the last one is `$END`, or `JUNK` where scanning could not go on.
      open: frames of what is open at the end, outermost first.
      comments: comments by the start of the equation they belong to.
      names: of the shared definitions anywhere in the text.
      one: whether to stop after one program, whatever follows.
      blocks: for each primitive the params that were read last, where they say by themselves where they end, and refer
        to nothing else in the text.
    """

    def __init__(self, source: Source):
        self.source, self.text, self.pos, self.one = source, source.text, 0, False
        self.tokens: list[Token] = []
        self.open: list[_Frame] = []
        self.comments = CommentScanner(self.text)
        self.values = ValueScanner(self.text)
        self.names: set[str] = set()
        if "let " in self.text:
            self.names.update(m[1] for m in _DEFINED.finditer(self.text))
        self.odd_name = _odd_names(self.names)
        self.signature = False  # the text is `(jaxpr, shapes)`
        self.equation_start = 0  # of the last one whose operands or `[` were read
        self.autodidax = False  # the text is Autodidax's
        self._last_blank, self._last_after = "", _nowhere
        self.has_where = "where" in self.text
        self.blocks: dict[str, list[Block]] = {}

    def inner(self, at: int) -> Scanner:
        """A scanner of one program that begins at `at`, inside a value of this text."""
        scanner = copy.copy(self)
        scanner.pos, scanner.one, scanner.tokens, scanner.open = at, True, [], []
        scanner.signature = scanner.autodidax = False
        return scanner

    def run(self) -> None:
        state: Any = self._module
        while state is not None:
            state = state()

    def _add(self, kind: str, match: re.Match[str], value: Any = None) -> None:
        self.tokens.append((kind, value, self.pos, match.end()))
        self.pos = match.end()

    def _junk(self) -> None:
        """End the scan where nothing fits: at the end of the text, or at junk."""
        self.comments.skip(self)
        pos = _gap(self.text, self.pos).end()  # type: ignore[union-attr]
        rest = self.text[pos : pos + 200]
        cut = bool(self.open) and len(rest) < 200 and "\n" not in rest.strip() and "}" not in rest
        if cut or not rest:
            end = len(self.text.rstrip())
            self.tokens.append(("$END", None, end, end))
        else:
            self.tokens.append(("JUNK", None, pos, pos))

    # ---- module, definitions, header

    def _module(self) -> Any:
        self.comments.skip_pasted(self)
        pos = _blank(self.text, self.pos).end()  # type: ignore[union-attr]
        if not self.tokens and self.text.startswith(("({ lambda", "(let "), pos):
            self.signature, pos = True, pos + 1
        self.pos = pos
        if m := _LET.match(self.text, pos):
            self.open.append(_Frame("definition", pos))
            self._add("LET", m, m[1])
            return self._header
        if m := _NAMED.match(self.text, pos):
            self._add("NAMED", m, m[1])
            return self._module
        if _LAMBDA.match(self.text, pos):
            return self._header
        if (m := match_args(self.text, pos)) and self._may_have_interface():
            self.pos = scan_interface(self.text, m, self.tokens)
            return self._module
        alone = not self.tokens and not self.text.startswith(";", pos)
        if alone and (_EQUATION.match(self.text, pos) or _REFERENCE.match(self.text, pos)):
            return self._lone_equation
        return self._junk()

    def _may_have_interface(self) -> bool:
        """Whether what was scanned last is a whole program."""
        return bool(self.tokens) and self.tokens[-1][0] in _PROGRAM_ENDS and not self.signature

    def _lone_equation(self) -> Any:
        self.open.append(_Frame("equation", self.pos))
        return self._equations

    def _header(self) -> Any:
        m = _LAMBDA.match(self.text, self.pos)
        if m is None:
            return self._junk()
        frame = _Frame("jaxpr", self.pos)
        self._add("LAMBDA", m)
        self.open.append(frame)
        self._binders()
        if m := _SEMICOLON.match(self.text, self.pos):
            self._add("SEMICOLON", m)
            self._binders()
        elif self._is_tutorial_s():
            self.autodidax = True
        else:
            return self._junk()
        if m := _DOT.match(self.text, self.pos):
            self._add("DOT", m)
            return self._equations
        return self._junk()

    def _is_tutorial_s(self) -> bool:
        """Whether a dot with a blank before it follows: that is Autodidax's; JAX has a `;` before that."""
        dot = _blank(self.text, self.pos).end()  # type: ignore[union-attr]
        return self.text.startswith(".", dot) and self.text[dot - 1].isspace()

    def _binders(self) -> None:
        if m := _BINDERS.match(self.text, self.pos):
            start = m.start(1)
            self.tokens.append(("BINDERS", m[1], start, m.end()))
            self.pos = m.end()

    # ---- equations

    def _equations(self) -> Any:
        text, tokens = self.text, self.tokens
        pos = self.pos
        watch = self.comments.present
        while True:
            if watch:
                self.pos = pos
                self.comments.skip(self)
                pos = self.pos
            m = _EQUATION.match(text, pos)
            if m is None:
                self.pos = pos
                m = self._unusual()
                if m is None:
                    return self._results()
                if m.re is _REFERENCE:
                    pos = self.pos
                    continue
            pos = m.end()
            self.equation_start = start = m.start(2) if m[2] else m.start(3)
            tokens.append(("EQUATION", m, start, pos))
            after_line = self._after_line(m[1])
            if text.startswith("[", pos):
                self.pos = pos
                return self._open_params(m[3], after_line)
            if self.autodidax and text.startswith(" [ ", pos):
                self.pos = pos + 1
                return self._open_params(m[3], after_line)
            pos = self._operands(pos, after_line)
            if self.autodidax and (m := _SUBJAXPR.match(text, pos)):
                self.pos = m.end()
                return self._header

    def _after_line(self, blank: str) -> Any:
        """What matches up to a line that continues the equation: it is indented deeper."""
        if blank != self._last_blank:
            _, newline, indent = blank.rpartition("\n")
            self._last_blank = blank
            self._last_after = _deeper(len(indent)) if newline else _nowhere
        return self._last_after

    def _unusual(self) -> re.Match[str] | None:
        """An equation without results, or on references; None where there is no equation."""
        if _OUTS.match(self.text, self.pos):
            return None
        if BARE_RESULTS.match(self.text, self.pos):
            return self._without_types()
        m = _REFERENCE.match(self.text, self.pos)
        if m:
            self.tokens.append(("REFERENCE", m, m.start(1), m.end()))
            self.pos, self.equation_start = m.end(), m.start(1)
            return m
        if m := self._without_types():
            return m
        return _NO_RESULT.match(self.text, self.pos)

    def _without_types(self) -> re.Match[str] | None:
        """An equation whose binders have no types; a line that they go on in is indented deeper than the first."""
        blank = _gap(self.text, self.pos)
        end, after_line = blank.end(), self._after_line(blank[0])  # type: ignore[union-attr,index]
        while m := _LOOSE_BINDERS.match(self.text, end):
            end = m.end()
            more = after_line(self.text, end)
            if more is None:
                break
            end = more.end()
        return (
            _LOOSE_EQUATION.match(self.text, self.pos) if self.text.startswith("= ", end) else None
        )

    def _operands(self, pos: int, after_line: Any) -> int:
        text = self.text
        m = _OPERANDS.match(text, pos)
        end = m.end()  # type: ignore[union-attr]
        while m := after_line(text, end):
            indent = m.end()
            more = _OPERANDS.match(text, indent - 1).end()  # type: ignore[union-attr]
            if more <= indent or text.startswith(
                "= ", indent
            ):  # the next equation, without results
                break
            end = more
        self.tokens.append(("OPERANDS", text[pos:end], pos, end))
        return end

    def _results(self) -> Any:
        m = _OUTS.match(self.text, self.pos)
        if m is None:
            if self.open[-1].kind == "equation" and self.tokens:
                self.open.pop()
            return self._junk()
        self.tokens.append(("OUTS", m[1], m.start(1) - 4, m.end()))
        self.pos = m.end()
        if m := _EFFECTS.match(self.text, self.pos):
            self._add("EFFECTS", m)
        m = _RBRACE.match(self.text, self.pos)
        if m is None:
            return self._junk()
        self._add("RBRACE", m)
        self.open.pop()
        if self.has_where and (m := _WHERE.match(self.text, self.pos)):
            self._add("WHERE", m)
            self._entries()
        return self._after_jaxpr

    def _entries(self) -> None:
        """The entries of a where section."""
        while True:
            if m := _WEAK.match(self.text, self.pos):
                self._add("WEAK", m, m[1].split())
            elif m := _CONST.match(self.text, self.pos):
                self._add("CONST", m, m[1])
                end = self.values.data_end(self.pos)
                if end is None:
                    self.pos = self.values.data_fault(self.pos)
                    return
                self.tokens.append(("DATA", self.text[self.pos : end], self.pos, end))
                self.pos = end
            else:
                return

    def _after_jaxpr(self) -> Any:
        """What follows depends on what the jaxpr stands in."""
        if not self.open:
            return self._end
        frame = self.open[-1]
        if self.comments.present and frame.kind in ("params", "tuple"):
            self.comments.skip_inside(self)
        if frame.kind == "params":
            return self._params
        if frame.kind == "tuple":
            return self._tuple
        if frame.kind == "definition":
            m = _IN.match(self.text, self.pos)
            if m is None:
                return self._junk()
            self._add("IN", m)
            self.open.pop()
            return self._module
        if m := _SUBJAXPR.match(self.text, self.pos):
            self.pos = m.end()
            return self._header
        return self._equations

    def _end(self) -> Any:
        if self.one:
            self.tokens.append(("$END", None, self.pos, self.pos))
            return None
        if self.signature:
            m = _SIGNATURE_END.match(self.text, self.pos)
            if m is None:
                pos = _blank(self.text, self.pos).end()  # type: ignore[union-attr]
                self.tokens.append(("JUNK", None, pos, pos))
                return None
            self.pos = m.end()
        return self._module

    # ---- params

    def _open_params(self, primitive: str, after_line: Any) -> Any:
        """At `[`: what follows is a list of params, in block layout or flat."""
        for block in self.blocks.get(primitive, ()) if not self.autodidax else ():
            if self.text.startswith(block.text, self.pos):
                end = self.pos + len(block.text)
                self.tokens.append(("PARAMS", block, self.pos, end))
                self.pos = self._operands(end, after_line)
                return self._equations
        frame = _Frame("params", self.pos)
        self.tokens.append(("LSQB", None, self.pos, self.pos + 1))
        self.pos += 1
        if self.comments.present:
            self.comments.skip_inside(self)
        frame.primitive, frame.after_line = primitive, after_line
        frame.equation, frame.first = self.equation_start, len(self.tokens)
        if self.text.startswith("\n", self.pos):
            indent = str(_blank(self.text, self.pos)[0])  # type: ignore[index]
            frame.column = len(indent) - indent.rfind("\n") - 1
        self.open.append(frame)
        return self._params()

    def _params(self) -> Any:
        """Params up to the closing bracket and the operands after it, or up to a jaxpr among them."""
        text, tokens, frame = self.text, self.tokens, self.open[-1]
        odd, free = self.odd_name, free_params(frame.primitive)
        plain = _plain_param(frame.column) if frame.column >= 0 else _PLAIN_FLAT
        pos, comments, known = self.pos, self.comments.present, frame.primitive in PRIMITIVES
        while True:
            if comments:
                self.pos = pos
                self.comments.skip_inside(self)
                pos = self.pos
            m = plain.match(text, pos)
            if m and odd is not None and odd.match(text, m.start(2)):
                m = None
            if m and m[1] not in free:
                pos = m.end(2)
                tokens.append(("KEY", m[1], m.start(1), m.start(2)))
                tokens.append(("VALUE", m[2], m.start(2), pos))
                continue
            if m := _CLOSE.match(text, pos):
                pos = m.end()
                tokens.append(("RSQB", None, pos - 1, pos))
                self.open.pop()
                self._keep_block(frame, pos)
                self.equation_start = frame.equation
                self.pos = self._operands(pos, frame.after_line)
                return self._after_operands
            if free and (m := _FREE_KEY.match(text, pos)) and m[1] in free:
                pos = m.end()  # blanks that free text begins with count
                tokens.append(("KEY", m[1], m.start(1), pos))
                end = self.values.value_end(frame.column, frame.primitive, m[1], pos)
                tokens.append(("VALUE", text[pos:end], pos, end))
                pos = end
                continue
            m = _KEY.match(text, pos)
            if m is None:
                self.pos = pos
                return self._junk()
            tokens.append(("KEY", m[1], m.start(1), m.end()))
            self.pos = m.end()
            if comments and m[1] not in free:
                self.comments.skip_inside(self)
            if known and (m := _BEFORE_VALUE.match(text, self.pos)):
                self.pos = m.end()
            pos = self.pos
            if m := _JAXPR.match(text, pos):
                self.pos = m.end()
                return self._header
            if odd is not None and (m := odd.match(text, pos)):
                tokens.append(("VALUE", m[0], pos, m.end()))
                pos = m.end()
                continue
            if (m := _JAXPRS.match(text, pos)) and not self.values.is_mixed(pos):
                self._add("LPAR", m)
                self.open.append(_Frame("tuple", pos))
                return self._tuple
            pos = self.values.value_end(frame.column, frame.primitive, tokens[-1][1], pos)
            tokens.append(("VALUE", text[self.pos : pos], self.pos, pos))

    def _keep_block(self, frame: _Frame, end: int) -> None:
        """Remember params that were read, where the same text means the same again."""
        start, known = frame.start, self.blocks
        if end - start > _LONGEST_BLOCK or not _repeats(frame.primitive):
            return
        if self.autodidax or self.comments.present or self.odd_name is not None:
            return
        text, tokens = self.text[start:end], self.tokens[frame.first : -1]
        if not self.names.isdisjoint(_WORDS.findall(text)) or _LAMBDA_INSIDE.search(text):
            return  # it refers to other places of the text
        block = Block(text, start, list(zip(tokens[::2], tokens[1::2], strict=True)))
        known[frame.primitive] = [block, *known.get(frame.primitive, ())][:_BLOCKS]

    def _after_operands(self) -> Any:
        if self.autodidax and (m := _SUBJAXPR.match(self.text, self.pos)):
            self.pos = m.end()
            return self._header
        return self._equations

    def _tuple(self) -> Any:
        """Inside `( ... )`: jaxprs and names of jaxprs."""
        self.pos = _blank(self.text, self.pos).end()  # type: ignore[union-attr]
        if _LAMBDA.match(self.text, self.pos):
            return self._header
        if self.text.startswith(")", self.pos):
            self.tokens.append(("RPAR", None, self.pos, self.pos + 1))
            self.pos += 1
            self.open.pop()
            return self._params
        if m := _NAME.match(self.text, self.pos):
            self._add("NAME", m, m[1])
            return self._tuple
        return self._junk()
