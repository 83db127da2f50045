"""The part of the scanner for equations, and for the end of a jaxpr: its results, and values of its constants."""

from __future__ import annotations

import re

from jaxprtool.syntax.patterns import GAP, pattern
from jaxprtool.syntax.refs import PATH, RAW_EQUATION
from jaxprtool.syntax.releases.earlier import declared_params
from jaxprtool.syntax.scanning.hints import BARE_RESULTS
from jaxprtool.syntax.scanning.lines import Line, Lines, start_of
from jaxprtool.syntax.scanning.params import ParamScanner
from jaxprtool.syntax.scanning.reading import AfterLine, Reading, State
from jaxprtool.syntax.tokens import BINDER, IDENT, LOOSE_BINDER, STORED, TRANSFORMED, WHERE

__all__ = ["EquationScanner"]

# ` *+` takes the blanks of an indentation several times faster than a class does.
_EQUATION = pattern(
    rf"(\n?+ *+[\s;]*+)(?<![^\s;])((?:{BINDER}[ \n] *+[ \n]*+)++)= ++([^\s\[;#][^\s\[;]*+)"
)
_LOOSE_BINDERS = pattern(rf"[ \n]*+(?:{LOOSE_BINDER}(?:[ ]++|(?=\n)))++")  # on a line
_LOOSE_EQUATION = pattern(
    rf"([\s;]*+)(?<![^\s;])((?:{LOOSE_BINDER}(?:[ ]*+\n)?+[ ]++)++)=(?:[ ]*+\n)?+[ ]++(?!\{{ lambda\b)((?!#)(?:{TRANSFORMED}|[^\s\[=;]++))(?=[\s\[;]|\Z)"
)
_UNPACKING = pattern(rf"([\s;]*+)(?<![^\s;])(\((?:{IDENT}(?: {IDENT})*+)?+\) )= (id)(?=\s)")
_NO_RESULT = pattern(
    r"([\s;]*+)()(?<![^\s;])(?:= ++)?+((?!in[ \n])[^\W\d][^\s\[\](){}=:,;]*+)(?=[ \[\n;]|\Z)(?! \([^()\n]*+\) \})"
)
_REF = rf"(?:{IDENT}|\((?:[^()\n]|\([^()\n]*+\))*+\)){PATH}"
_REFERENCE = pattern(
    rf"[\s;]*+(?<![^\s;])({RAW_EQUATION}|(?:({LOOSE_BINDER})(?:, {_REF})?+|{_REF})(?: <- | \+= )"
    rf"(?:{_REF}(?:, {STORED})?+|(?!in ++\(){STORED})(?: (?:mask|other)=[^\s;]++)*+)"
    r"(?=[ \t]++#|[ \t]*+(?:[\n;]|in ++\(|\Z))"
)
_OUTS = pattern(
    r"[ \n]*+[\s;]*+(?<![^\s;])in ++\(((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+)\)(\s*+\})?+"
)
_EFFECTS = pattern(r"\s*+: \{([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}")
_RBRACE = pattern(r"\s*+\}")
_SUBJAXPR = pattern(r"\s*+(?=\{ lambda\b)")
# As the releases to 0.1.60 print results: one alone, none, several in a list.
_OLD_OUTS = pattern(
    r"[\s;]*+(?<![^\s;])in (?!#)(?:\*(?= \})|\[([^\[\]{}]*+)\]|((?:Literal\([^(){}]*+\)|[^\s()\[\]{}=])++))(?=\s*+\})"
)
# the first binders of a jaxpr below
_BOUND = pattern(r"[ \t]*+\[ ?([^\[\]{}=;]*+;[^\[\]{}=;]*+)\]")
_SPACED_OPENING = pattern(r"(?: ++(?=\[ ))?+\[")
_WHERE = pattern(WHERE)
_WEAK = pattern(r"\s*+weak((?: +[^\W\d]\w*+)++)[ ]*+(?=\n|\Z|[,\])}])")
_CONST = pattern(rf"\s*+({IDENT}) = (?!\s*+(?:\{{ lambda|let ))\s*+")


class EquationScanner:
    """Scans equations, up to the end of their jaxpr."""

    def __init__(self, reading: Reading, params: ParamScanner, lines: Lines):
        self.reading, self.params, self.lines = reading, params, lines

    def at(self, pos: int) -> bool:
        """Whether an equation begins at an offset."""
        text = self.reading.text
        if _EQUATION.match(text, pos) or _REFERENCE.match(text, pos):
            return True
        m = _LOOSE_EQUATION.match(text, pos)
        return m is not None and declared_params(m[3]) is not None

    def equations(self) -> State:
        """Scan equations up to the results, or to the params of one."""
        reading, lines, blocks = self.reading, self.lines, self.reading.blocks
        text, tokens, below = reading.text, reading.tokens, reading.below
        pos, comments = reading.pos, reading.comments
        # Equations that hold no jaxprs are one token together, unless something may stand between them.
        together = not (below or comments.present or reading.open[-1].kind == "equation")
        run: list[Line] = []
        while True:
            if comments.present:
                reading.pos = pos
                comments.skip(reading)
                pos = reading.pos
            m = _EQUATION.match(text, pos)
            if m is None:
                if run:
                    tokens.append(("EQUATIONS", run, start_of(run[0][0]), pos))
                    run = []
                reading.pos = pos
                if outs := _OUTS.match(text, pos):
                    closed = outs.end() if outs[2] else -1
                    return self._results(outs[1], outs.start(1) - 4, outs.end(1) + 1, closed)
                if reading.classic and (outs := _OLD_OUTS.match(text, pos)):
                    found = next(filter(None, outs.groups()), "")
                    return self._results(found, GAP.match(text, pos).end(), outs.end())
                bare = BARE_RESULTS.match(text, pos)
                if not bare and (m := _REFERENCE.match(text, pos)):
                    tokens.append(("REFERENCE", m, m.start(1), m.end()))
                    pos, reading.equation_start = m.end(), m.start(1)
                    continue
                m = _UNPACKING.match(text, pos) or self._without_types()
                m = m or (None if bare else _NO_RESULT.match(text, pos))
                if m is None:
                    return self._no_results()
            pos = after_name = m.end()
            after_line = lines.continued(m[1])
            block = None
            if not below and text.startswith("[", pos):
                block = blocks.at(m[3], pos)
                if block is None:
                    if run:
                        tokens.append(("EQUATIONS", run, start_of(run[0][0]), m.end(1)))
                    reading.equation_start = start = start_of(m)
                    tokens.append(("EQUATION", m, start, pos))
                    reading.pos = pos
                    return self.params.opened(m[3], after_line)
                pos += len(block.text)
            if together:
                end = lines.end_of_operands(pos, after_line)
                run.append((m, block, pos, end))
                pos = end
                continue
            reading.equation_start = start = start_of(m)
            tokens.append(("EQUATION", m, start, after_name))
            if below:
                return self._with_jaxprs_below(m[3], pos, after_line)
            if block is not None:
                tokens.append(("PARAMS", block, after_name, pos))
            pos = lines.operands(pos, after_line)

    def _with_jaxprs_below(self, primitive: str, pos: int, after_line: AfterLine) -> State:
        """Scan what follows a primitive's name in a text with jaxprs below equations, as the tutorial's.

        There blanks may surround params.
        """
        reading = self.reading
        if opening := _SPACED_OPENING.match(reading.text, pos):
            reading.pos = opening.end() - 1
            return self.params.opened(primitive, after_line)
        reading.pos = self.lines.operands(pos, after_line)
        return self.jaxpr_below()

    def jaxpr_below(self) -> State:
        """Scan a jaxpr below an equation, as the tutorial and the releases to 0.1.57 print them, or
        the next equation.
        """
        if self.reading.tokens[-1][0] in ("RESULTS", "RBRACE") and (
            m := _BOUND.match(self.reading.text, self.reading.pos)
        ):
            self.reading.add("BOUND", m, m[1])
        m = _SUBJAXPR.match(self.reading.text, self.reading.pos)
        if m is None:
            return "equations"
        self.reading.pos = m.end()
        return "header"

    def _without_types(self) -> re.Match[str] | None:
        """Match an equation whose binders have no types; a line that continues it is indented
        deeper than the first.
        """
        text, pos = self.reading.text, self.reading.pos
        blank = GAP.match(text, pos)
        end, after_line = blank.end(), self.lines.continued(blank[0])
        while m := _LOOSE_BINDERS.match(text, end):
            end = m.end()
            more = after_line(text, end)
            if more is None:
                break
            end = more.end()
        return _LOOSE_EQUATION.match(text, pos) if text.startswith(("= ", "=\n"), end) else None

    def _no_results(self) -> State:
        """Stop where neither an equation nor results follow: at the end of a text without a jaxpr, or at junk."""
        reading = self.reading
        if reading.open[-1].kind == "equation" and reading.tokens:
            reading.open.pop()
        return reading.give_up()

    def _results(self, outs: str, start: int, end: int, closed: int = -1) -> State:
        """Scan the results, which lie from `in` to `end`, and the end of the jaxpr.

        `closed` is the offset after the brace, where that follows them directly; else -1.
        """
        reading = self.reading
        if closed >= 0:
            reading.tokens.append(("RESULTS", outs, start, end))
            reading.pos = closed
        else:
            reading.tokens.append(("OUTS", outs, start, end))
            reading.pos = end
            if m := _EFFECTS.match(reading.text, reading.pos):
                reading.add("EFFECTS", m)
            m = _RBRACE.match(reading.text, reading.pos)
            if m is None:
                return reading.give_up()
            reading.add("RBRACE", m)
        reading.open.pop()
        if m := _WHERE.match(reading.text, reading.pos):
            reading.add("WHERE", m)
            self._entries()
        return "after_jaxpr"

    def _entries(self) -> None:
        """Scan the entries of a where section."""
        reading = self.reading
        text, values = reading.text, reading.values
        while True:
            if m := _WEAK.match(text, reading.pos):
                reading.add("WEAK", m, m[1].split())
            elif m := _CONST.match(text, reading.pos):
                reading.add("CONST", m, m[1])
                start = reading.pos
                end = values.data_end(start)
                if end is None:
                    reading.pos = values.data_fault(start)
                    return
                reading.tokens.append(("DATA", text[start:end], start, end))
                reading.pos = end
            else:
                return
