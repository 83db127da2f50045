"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import time
from typing import Any

import pytest

from jaxprtool.syntax.patterns import BLANK, GAP, pattern
from jaxprtool.syntax.scanning.values import fault

COMPILED = """
import re, sys

found, compiled = [], re.compile

def compile(*args, **options):
    found.append(sys._getframe(1).f_globals["__name__"])
    return compiled(*args, **options)

re.compile = compile
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
for text in sys.argv[1:]:
    format_jaxpr(parse(text))
print(*[name for name in found if name.startswith("jaxprtool.syntax")])
"""


def compiling(*text: str) -> list[str]:
    """The modules of the reader that compile patterns at the start, and while a text is read."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, *text], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_start_compiles_none():
    assert compiling() == []


def test_reading_compiles_some():
    """So the test above can fail."""
    assert "jaxprtool.syntax.patterns" in compiling("{ lambda ; a:f32[]. let  in (a,) }")


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("match", ("ab12", 2)),
        ("fullmatch", ("ab12", 2, 3)),
        ("search", ("ab12",)),
        ("findall", ("a1b22",)),
        ("split", ("a1b22",)),
        ("sub", ("-", "a1b22")),
    ],
)
def test_it_does_what_a_compiled_pattern_does(method: str, args: Any):
    ours, theirs = (getattr(make(r"\d+"), method)(*args) for make in (pattern, re.compile))
    shown = [x if isinstance(x, (str, list)) else x.span() for x in (ours, theirs)]
    assert shown[0] == shown[1]


def test_flags_and_copies():
    twice = pattern("a.b", re.DOTALL)
    assert copy.copy(twice).match("a\nb")
    assert twice.match("a\nb") and not twice.match("ab")


@pytest.mark.parametrize("text", ["", "x", " ; x"])
def test_gaps_match_everywhere(text: str):
    for at in range(len(text) + 1):
        assert BLANK.match(text, at).end() <= GAP.match(text, at).end()


@pytest.mark.parametrize("run", ["x", "é", "9", " ", "a ", "a.", "-"])
def test_a_long_run_in_a_value_that_is_only_text_takes_time_in_proportion(run):
    text = run * (300_000 // len(run)) + "()"
    begin = time.process_time()
    fault(text)
    assert time.process_time() - begin < 2  # letter by letter: the square of the length
