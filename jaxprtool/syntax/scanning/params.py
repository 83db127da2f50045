"""The part of the scanner for params in brackets: keys, texts of values, and jaxprs among them.

The value of a param that is arbitrary text ends at the next key or closing bracket in its column
(`values`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from jaxprtool.core.primitive import known_primitive
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.scanning.hints import LOOSE_START
from jaxprtool.syntax.scanning.lines import Lines
from jaxprtool.syntax.scanning.reading import AfterLine, Frame, Reading, State
from jaxprtool.syntax.scanning.values import free_params, name_params
from jaxprtool.syntax.tokens import IDENT, LAMBDA, PLAIN_VALUE

__all__ = ["ParamScanner"]

_PLAIN_FLAT = pattern(rf"\s*+(?<![)}}])({IDENT})=({PLAIN_VALUE})(?=\s++{IDENT}=(?!=)|\s*+\])")
_KEY = pattern(
    rf"\s*+[,;]?+\s*+(?<![)}}])({IDENT})[ \t]*+=(?!=)(?:[ \t]++(?!{IDENT}[ \t]*+=(?!=)|{IDENT}:{IDENT}\[|\]))?+"
)
# Its value may begin with `=`, and with blanks where none stand before the first `=`.
_FREE_KEY = pattern(rf"\s*+[,;]?+\s*+({IDENT})(?:=|[ \t]++=(?:[ \t]++(?!{IDENT}=|\s))?+)")
_BEFORE_VALUE = pattern(rf"\s++(?!{IDENT}[ \t]*+=|{IDENT}:{IDENT}\[|[\],;#])")
_JAXPR = pattern(rf"\s*+(?={LAMBDA})")
_JAXPRS = pattern(r"\((?=\s*+(?:[^\s(),\[\]{}]++\s++)*+\{ lambda\b)")
_LAMBDA = pattern(LAMBDA)
_NAME = pattern(r"\s*+([^\s(){}\[\]:;,=#][^\s(){}=]*+)")
_CLOSE = pattern(r"\s*+[,;]?+\s*+\]")


@lru_cache(maxsize=256)
def _plain_param(column: int) -> re.Pattern[str]:
    """Return a pattern for `key=value` with a plain value, in block layout with keys in `column`."""
    return re.compile(
        rf"\n {{{column}}}({IDENT})=({PLAIN_VALUE})"
        rf"(?=\n {{{column}}}{IDENT}=(?!=)|\n {{{max(column - 2, 0)}}}\])"
    )


class ParamScanner:
    """Scans params, and the operands after them."""

    def __init__(self, reading: Reading, lines: Lines):
        self.reading, self.lines = reading, lines

    def opened(self, primitive: str, after_line: AfterLine) -> State:
        """Begin at `[` a list of params, in block layout or flat."""
        reading = self.reading
        start, text = reading.pos, reading.text
        frame = Frame("params", start)
        reading.tokens.append(("LSQB", None, start, start + 1))
        reading.pos += 1
        if reading.comments.present:
            reading.comments.skip_inside(reading)
        frame.primitive, frame.after_line = primitive, after_line
        frame.equation, frame.first = reading.equation_start, len(reading.tokens)
        if text.startswith("\n", reading.pos):
            end = reading.after_blanks()
            frame.column = end - text.rfind("\n", 0, end) - 1
        reading.open.append(frame)
        return self.params()

    def params(self) -> State:
        """Scan params up to the closing bracket and the operands after it, or up to a jaxpr among them."""
        reading = self.reading
        text, tokens, frame = reading.text, reading.tokens, reading.open[-1]
        odd, of = reading.odd_name, frame.primitive
        free, named = free_params(of), name_params(of)
        value_end = reading.values.value_end
        plain = _plain_param(frame.column) if frame.column >= 0 else _PLAIN_FLAT
        pos, comments = reading.pos, reading.comments.present
        known = known_primitive(frame.primitive) is not None
        while True:
            if comments:
                pos = self._after_comments(pos)
            m = plain.match(text, pos)
            odd_one = m and (odd is not None or m[1] in named) and self._goes_on(m, m[1] in named)
            if m and not odd_one and m[1] not in free:
                at, pos = m.span(2)
                pair = ("KEY", m[1], m.start(1), at), ("VALUE", m[2], at, pos)
                if tokens[-1][0] == "PAIRS":
                    tokens[-1][1].append(pair)
                else:
                    tokens.append(("PAIRS", [pair], m.start(1), at))
                continue
            if m := _CLOSE.match(text, pos):
                return self._closed(m.end())
            if free and (m := _FREE_KEY.match(text, pos)) and m[1] in free:
                pos = m.end()  # blanks that free text begins with count
                tokens.append(("KEY", m[1], m.start(1), pos))
                end = value_end(frame.column, frame.primitive, m[1], pos)
                tokens.append(("VALUE", text[pos:end], pos, end))
                pos = end
                continue
            m = _KEY.match(text, pos)
            if m is None or (known and self._is_equation(frame, pos)):
                reading.pos = pos
                return reading.give_up()
            key, pos = m[1], m.end()
            tokens.append(("KEY", key, m.start(1), pos))
            if comments and key not in free:
                pos = self._after_comments(pos)
            if text.startswith("{ lambda ", pos):
                reading.pos = pos
                return "header"
            if m := _BEFORE_VALUE.match(text, pos):
                pos = m.end()
            if m := _JAXPR.match(text, pos):
                reading.pos = m.end()
                return "header"
            if odd is not None and (m := odd.match(text, pos)):
                tokens.append(("VALUE", m[0], pos, m.end()))
                pos = m.end()
                continue
            if (m := _JAXPRS.match(text, pos)) and not reading.values.is_mixed(pos):
                reading.pos = pos
                reading.add("LPAR", m)
                reading.open.append(Frame("tuple", pos))
                return "jaxprs"
            end = value_end(frame.column, frame.primitive, key, pos)
            tokens.append(("VALUE", text[pos:end], pos, end))
            pos = end

    def _goes_on(self, m: re.Match[str], is_name: bool) -> bool:
        """Whether a plain value is only the beginning of a name: `name=in let=3` (to 0.2.21 beside the bracket)."""
        reading = self.reading
        odd, text = reading.odd_name, reading.text
        if odd is not None and odd.match(text, m.start(2)):
            return True
        return is_name and reading.open[-1].column < 0 and text[m.end()] == " "

    def _is_equation(self, frame: Frame, pos: int) -> bool:
        """Whether an equation follows, not a param: the closing bracket is missing."""
        m = LOOSE_START.match(self.reading.text, pos)
        of = known_primitive(frame.primitive)
        if m is None or of is None or known_primitive(m[2]) is None:
            return False
        return m[1] not in of.params

    def _closed(self, end: int) -> State:
        """Continue after `]`."""
        reading = self.reading
        frame = reading.open.pop()
        reading.tokens.append(("RSQB", None, end - 1, end))
        if not (reading.below or reading.comments.present or reading.odd_name):
            inside = reading.tokens[frame.first : -1]
            reading.blocks.keep(frame.primitive, frame.start, end, inside)
        reading.equation_start = frame.equation
        reading.pos = self.lines.operands(end, frame.after_line)
        return "jaxpr_below" if reading.below else "equations"

    def _after_comments(self, pos: int) -> int:
        """Return the offset after comments among params."""
        self.reading.pos = pos
        self.reading.comments.skip_inside(self.reading)
        return self.reading.pos

    def jaxprs(self) -> State:
        """Scan jaxprs and names of jaxprs inside `( ... )`."""
        reading = self.reading
        while True:
            if reading.comments.present:
                reading.comments.skip_inside(reading)
            reading.pos = reading.after_blanks()
            if _LAMBDA.match(reading.text, reading.pos):
                return "header"
            if reading.text.startswith(")", reading.pos):
                reading.tokens.append(("RPAR", None, reading.pos, reading.pos + 1))
                reading.pos += 1
                reading.open.pop()
                return "params"
            m = _NAME.match(reading.text, reading.pos)
            if m is None:
                return reading.give_up()
            reading.add("NAME", m, m[1])
