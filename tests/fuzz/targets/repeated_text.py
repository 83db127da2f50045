"""Pieces of text repeated many times: reading takes time that is linear in the length, whatever stands there."""

from __future__ import annotations

import contextlib
import random
import time
from typing import NamedTuple

from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from tests.fuzz.target import Failure, Target

_HEAD = "{ lambda ; a:f32[]. let "
_TAIL = " in (a,) }"
_FRAMES = (  # what stands before and after the repeated piece
    ("", ""),
    ("{ lambda ", "; . let in () }"),
    ("{ lambda ; ", ". let in () }"),
    ("{ lambda ; a:f32[", "]. let in (a,) }"),
    ("{ lambda ; a:f32[3]{", "}. let in (a,) }"),
    (_HEAD, _TAIL),
    (_HEAD + "b:f32[] = foo[x=", "] a" + _TAIL),
    (_HEAD + "b:f32[] = foo[\n      x=", "\n    ] a\n " + _TAIL),
    (_HEAD + "b:f32[] = reduce_sum[axes=(", ") out_sharding=None] a" + _TAIL),
    (_HEAD + "b:f32[] = jit[name=f jaxpr=", "] a" + _TAIL),
    (_HEAD + "b:f32[] = cond[branches=(", ")] a" + _TAIL),
    (_HEAD + "b:f32[] = foo ", _TAIL),
    (_HEAD + "b:f32[] <- a[", "]" + _TAIL),
    (_HEAD + "in (", ") }"),
    (_HEAD + "in (a,) } where ", ""),
    ("{ lambda c:f32[9]; . let in () } where c = [", "]"),
    ("{ lambda a:float64[] .\n  let ", "  in ( a ) }"),
    (_HEAD + "b:f32[] = sin a # ", "\n " + _TAIL),
    (_HEAD + "b:f32[] = sin a # ", ")\n " + _TAIL),
    (_HEAD + "b:f32[] = sin a      # f.py:1:2 (g) # ", "# []\n " + _TAIL),
    (_HEAD + "debug_print[\n      fmt=", "\n      ordered=False\n    ] a\n " + _TAIL),
    ("{ lambda  ;  ; a.\n  let ", "\n  in a }"),
)
_PIECES = (
    *(" ", "\n", "\n  ", ",", ", ", ";", ":", "=", " = ", "(", ")", "[", "]", "{", "}", "()", "[]"),
    *("a", "_", "a ", "a, ", "let ", "in ", "in (", "lambda ", "{ lambda ", "where ", "weak ", "#"),
    *("'", '"', "'a' ", "\\'", "\\", "<", ">", "<a>", "True", "1", "1,", "1.0 ", "1:f32[] ", "1e9"),
    *("a:f32[]", "a:f32[] ", "f32[3]", "k=1 ", "k=(", "k = ", "name=f ", "# a\n", "a:f32[] = "),
    *("{ lambda ; a:f32[]. let in (a,) }", "let f = { lambda ; . let in () } in\n", "_:f32[] "),
    *("b:f32[] = sin a\n", "sin a; ", "free_ref a\n    ", "a b\n      c = ", "r[0]", "r[0] <- ", "a[...]", " += ", "PyTreeDef(", "F(a=", "np.int64(1), "),
    *("ShapedArray(f32[3]), ", "frozenset({", "slice(1, 2), ", "{0: ", "\x1b[0m", "\r", "é", "q1 "),
    *("f.py:1:2 (g) ", ":1 (", "[jvp(f)] ", " # ", "# ", "b = pack a a\n      ", "(c d) = id a\n      ", "$'"),
)  # fmt: skip


class Case(NamedTuple):
    before: str
    piece: str
    after: str

    def text(self, size: int) -> str:
        """A text of about this many characters."""
        return self.before + self.piece * (size // len(self.piece)) + self.after


def draw(rng: random.Random) -> Case:
    before, after = rng.choice(_FRAMES)
    pieces = [rng.choice(_PIECES) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    return Case(before, "".join(pieces), after)


def _seconds(text: str) -> float:
    start = time.process_time()
    with contextlib.suppress(JaxprToolError):
        format_file(parse_file(text))
    return time.process_time() - start


SIZE, TIMES = 8_000, 8
PER_CHARACTER = 20e-6  # seconds: what no text takes, however hard it is to read


def check(case: Case) -> None:
    for _ in range(3):  # a machine that is busy for a moment is no failure
        small, large = _seconds(case.text(SIZE)), _seconds(case.text(TIMES * SIZE))
        if large < max(3 * TIMES * small, 0.1) and large < PER_CHARACTER * TIMES * SIZE:
            return
    raise Failure(f"{small:.3f} s for {SIZE} characters, {large:.3f} s for {TIMES} times as many")


TARGET = Target("repeated-text", draw, check, show=lambda case: repr(tuple(case)))
