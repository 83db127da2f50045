"""Numbers of thousands of digits: a message wherever they stand, since Python refuses to convert them."""

from __future__ import annotations

import re

import pytest

import jaxprtool as jt
from jaxprtool.syntax.scanning.long_numbers import MOST_DIGITS, long_number
from tests.fuzz.choice import digest
from tests.invoke import invoke
from tests.test_cases import CASES, MARK

LONG = "9" * 5000
NUMBER = re.compile(r"\d+")


def texts():
    """Some of the cases: which ones does not depend on the others."""
    for path in [p for p in CASES if digest(f"{p.parent.name}/{p.stem}") % 23 == 0]:
        text = path.read_text().partition("\n")[2]
        given = text[: m.start()] if (m := MARK.search(text)) else text
        # a stamp of a log is no number of a program's, and what another format says is not read
        read = not path.stem.startswith("log") and "# jaxprtool format" not in given
        if "lambda" in given and NUMBER.search(given) and read:
            yield pytest.param(given, id=f"{path.parent.name}/{path.stem}")


@pytest.mark.parametrize("text", [*texts()])
def test_a_long_number_in_the_place_of_each(text):
    for m in list(NUMBER.finditer(text))[:12]:
        with pytest.raises(jt.JaxprToolError, match=r"digits|characters"):
            jt.parse_file(text[: m.start()] + LONG + text[m.end() :])


ORIGINS = [f"f.py:{LONG}:3 (g)", f"f.py:3:{LONG} (g)", f"f.py:{LONG} (g)"]


@pytest.mark.parametrize("comment", ORIGINS)
def test_in_a_comment(comment):
    text = f"{{ lambda ; a:f32[]. let b:f32[] = sin a # {comment}\n in (b,) }}"
    with pytest.raises(jt.JaxprToolError, match="4,000 digits"):
        jt.parse(text)


WORDS = [
    ("run", "--args", LONG),
    ("run", "--args", f"[1,{LONG}]"),
    ("run", "--args", f"random:{LONG}"),
    ("run", "--args", f"a={LONG}"),
    ("grad", "--wrt", f"0-{LONG}"),
    ("grad", "--wrt", LONG),
    ("vmap", "--in-axes", LONG),
    ("vmap", "--axis-size", LONG),
    ("check", "--shape", f"f32[{LONG}]"),
    ("trace", "math:sin", "--static", f"a={LONG}"),
]


@pytest.mark.parametrize("words", WORDS, ids=lambda w: " ".join(w)[:24])
def test_in_a_command(words):
    done = invoke(list(words), "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }\n")
    assert done.status == 2
    assert "holds a number of more than 4,000 digits" in done.error


def test_where_it_begins():
    digits = "1" * MOST_DIGITS
    assert long_number(f"a{digits} {digits}\n{digits}") is None
    assert long_number(f"{digits}\n a {digits}1") == MOST_DIGITS + 4
