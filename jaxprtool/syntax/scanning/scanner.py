"""The scanner: splits a text into the coarse tokens of the grammar.

It is a machine of a few states (module, header, equations, params, jaxprs in parentheses) with a
stack of open constructs, so nesting costs no recursion. It uses layout only where nothing else
decides: lines that continue an equation are indented deeper than it, and a param's value that is
arbitrary text ends at the next key or closing bracket in its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jaxprtool.ir.spans import Source
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.scanning.equations import EquationScanner
from jaxprtool.syntax.scanning.interface import ARGS, scan_interface
from jaxprtool.syntax.scanning.lines import Lines
from jaxprtool.syntax.scanning.params import ParamScanner
from jaxprtool.syntax.scanning.reading import Frame, Reading, State
from jaxprtool.syntax.tokens import BINDER, DEFINED, LAMBDA, LOOSE_BINDER

__all__ = ["scan", "scan_inner"]

_LET = pattern(DEFINED + r"(?=\{ lambda\b)")
_NAMED = pattern(rf"(?<!\S)([\w.\-]++)\s*+=\s*+(?=(?:{DEFINED})?+\{{ lambda\b|#)")
_LAMBDA = pattern(LAMBDA)
_RUN = rf"{BINDER}(?:[ \n] *+{BINDER})*+"
_HEAD = pattern(rf"(\{{ lambda) ({_RUN})?+(;)(?: ({_RUN}))?+\. let(?=\s)")
_BINDERS = pattern(rf"\s*+((?:{LOOSE_BINDER}(?:,\s*+|\s++|(?=[;.])))++)")
_TYPED = pattern(r"[^\s,:]++:")  # a binder that has a type
_SEMICOLON = pattern(r"\s*+;")
_DOT = pattern(r"\s*+\.(?:\s*+let\b)?+(?=[\s;]|\Z)")
_IN = pattern(r"\s*+in(?=\s|\Z)")
_SIGNATURE_END = pattern(r"\s*+, .*\)\s*+\Z", re.DOTALL)
_PROGRAM_ENDS = frozenset({"RESULTS", "RBRACE", "WHERE", "DATA", "WEAK"})


def scan(source: Source) -> Reading:
    """Scan a whole text.

    The tokens are in `.tokens`; constructs that are still open at its end in `.open`.
    """
    return _run(Reading(source))


def scan_inner(outer: Reading, at: int) -> Reading:
    """Scan one program that begins at an offset of a text, inside a value; it ends at `.pos`."""
    return _run(outer.inner(at))


def _run(reading: Reading) -> Reading:
    lines = Lines(reading)
    params = ParamScanner(reading, lines)
    equations = EquationScanner(reading, params, lines)
    programs = ProgramScanner(reading, equations)
    states: dict[State, Callable[[], State]] = {
        "module": programs.module,
        "header": programs.header,
        "after_jaxpr": programs.after_jaxpr,
        "equations": equations.equations,
        "jaxpr_below": equations.jaxpr_below,
        "params": params.params,
        "jaxprs": params.jaxprs,
    }
    state: State = "module"
    while state != "end":
        state = states[state]()
    return reading


class ProgramScanner:
    """Scans definitions, names of programs and heads of jaxprs."""

    def __init__(self, reading: Reading, equations: EquationScanner):
        self.reading, self.equations = reading, equations

    def module(self) -> State:
        """Continue at the start of the text, or after a definition or a program."""
        reading = self.reading
        text, tokens = reading.text, reading.tokens
        while True:
            reading.comments.skip_pasted(reading)
            reading.pos = pos = reading.after_blanks()
            if not tokens and text.startswith(("({ lambda", "(let "), pos):
                reading.signature = True
                reading.pos = pos = pos + 1
            if m := _LET.match(text, pos):
                reading.open.append(Frame("definition", pos))
                reading.add("LET", m, m[1])
                return "header"
            if m := _NAMED.match(text, pos):
                reading.add("NAMED", m, m[1])
            elif _LAMBDA.match(text, pos):
                return "header"
            elif (m := ARGS.match(text, pos)) and self._may_have_interface():
                reading.pos = scan_interface(text, m, tokens)
            elif not tokens and not text.startswith(";", pos) and self.equations.at(pos):
                reading.open.append(Frame("equation", pos))
                return "equations"
            else:
                return reading.give_up()

    def _may_have_interface(self) -> bool:
        """Whether the last tokens end a whole program."""
        reading = self.reading
        ended = bool(reading.tokens) and reading.tokens[-1][0] in _PROGRAM_ENDS
        return ended and not reading.signature

    def header(self) -> State:
        """Scan a jaxpr up to the dot before its equations."""
        reading = self.reading
        if m := _HEAD.match(reading.text, reading.pos):
            return self._usual_head(m)
        m = _LAMBDA.match(reading.text, reading.pos)
        if m is None:
            return reading.give_up()
        frame = Frame("jaxpr", reading.pos)
        reading.add("LAMBDA", m)
        reading.open.append(frame)
        self._binders()
        if m := _SEMICOLON.match(reading.text, reading.pos):
            reading.add("SEMICOLON", m)
            self._binders()
            m = _SEMICOLON.match(reading.text, reading.pos)
            wrong = self._free_variables(m) if m else -1
            if wrong >= 0:
                reading.tokens.append(("JUNK", None, wrong, wrong))
                return "end"
        elif self._is_tutorial_s():
            reading.autodidax = reading.below = True
        else:
            return reading.give_up()
        if m := _DOT.match(reading.text, reading.pos):
            if "\n" in m[0] and not reading.autodidax:
                reading.classic = True
            reading.add("DOT", m)
            return "equations"
        return reading.give_up()

    def _usual_head(self, m: re.Match[str]) -> State:
        """Scan a whole head, as JAX has written them since 0.2.22."""
        reading = self.reading
        reading.open.append(Frame("jaxpr", reading.pos))
        reading.tokens.append(("HEAD", m, reading.pos, m.end(1)))
        reading.pos = m.end()
        return "equations"

    def _free_variables(self, second: re.Match[str]) -> int:
        """Scan heads with three runs of binders, as in the releases to 0.1.57; the second are free
        variables, and become constants.

        Returns:
          -1; where one of them has a type, the offset of the fault.
        """
        reading, tokens = self.reading, self.reading.tokens
        before = len(tokens) - 1
        while tokens[before][0] != "LAMBDA":
            before -= 1
        runs = [t for t in tokens[before + 1 :] if t[0] == "BINDERS"]
        if any(":" in run[1] for run in runs):
            return second.end() - 1
        arguments = _BINDERS.match(reading.text, second.end())
        typed = _TYPED.search(arguments[1]) if arguments else None
        if arguments and typed:
            return arguments.start(1) + typed.start()
        del tokens[before + 1 :]
        if runs:
            start, end = runs[0][2], runs[-1][3]
            tokens.append(("BINDERS", reading.text[start:end], start, end))
        reading.below = True
        reading.add("SEMICOLON", second)
        self._binders()
        return -1

    def _is_tutorial_s(self) -> bool:
        """Whether a dot with a blank before it follows, as in Autodidax; JAX has a `;` before the dot."""
        text, dot = self.reading.text, self.reading.after_blanks()
        return text.startswith(".", dot) and text[dot - 1].isspace()

    def _binders(self) -> None:
        reading = self.reading
        if m := _BINDERS.match(reading.text, reading.pos):
            reading.tokens.append(("BINDERS", m[1], m.start(1), m.end()))
            reading.pos = m.end()

    def after_jaxpr(self) -> State:
        """Continue after a jaxpr, depending on the construct that contains it."""
        reading = self.reading
        if not reading.open:
            return self._after_program()
        kind = reading.open[-1].kind
        if reading.comments.present and kind in ("params", "tuple"):
            reading.comments.skip_inside(reading)
        if kind == "params":
            return "params"
        if kind == "tuple":
            return "jaxprs"
        if kind != "definition":
            return "jaxpr_below"
        m = _IN.match(reading.text, reading.pos)
        if m is None:
            return reading.give_up()
        reading.add("IN", m)
        reading.open.pop()
        return "module"

    def _after_program(self) -> State:
        reading = self.reading
        if reading.one:
            reading.tokens.append(("$END", None, reading.pos, reading.pos))
            return "end"
        if reading.signature:
            m = _SIGNATURE_END.match(reading.text, reading.pos)
            if m is None:
                pos = reading.after_blanks()
                reading.tokens.append(("JUNK", None, pos, pos))
                return "end"
            reading.pos = m.end()
        return "module"
