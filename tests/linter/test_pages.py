"""explain: every code of a message has a page, whose example gives that message and whose mended form is well-typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.driver.check import check
from jaxprtool.driver.explain import says
from jaxprtool.driver.files import read_programs
from jaxprtool.linter.messages import MESSAGES
from jaxprtool.linter.pages import all_pages
from tests.invoke import invoke
from tests.linter.codes import codes

PAGES = {page.code: page for page in all_pages()}
WITH_EXAMPLES = [page.code for page in MESSAGES if page.command == "check"]
CASES = Path(__file__).parents[1] / "cases"


def test_every_code_has_one_page():
    found = codes()
    assert len(found) > 200
    assert {c: place for c, place in found.items() if c not in PAGES} == {}
    assert len(PAGES) == len(all_pages())


def test_a_page_is_of_a_code_that_there_is():
    """Two codes are put together of words: `no-such-{what}`."""
    rules = {code for code, page in PAGES.items() if page.command.startswith("lint")}
    assert {*PAGES} - rules - {*codes()} == {"no-such-function", "no-such-value"}


def test_what_check_says_has_an_example():
    """The codes of all texts that `check` refuses in the cases, but for those on files and calls."""
    said = {
        code
        for folder in ("check", "malformed")
        for path in (CASES / folder).glob("*.jaxpr")
        for code in re.findall(r"error: .*\[([a-z-]+)\]$", path.read_text(), re.MULTILINE)
    }
    assert len(said) > 30
    of_calls = {code for code in said if PAGES[code].family in ("calls", "files")}
    assert said - of_calls <= {*WITH_EXAMPLES}


@pytest.mark.parametrize("code", WITH_EXAMPLES)
def test_the_example_of_a_message(code):
    page = PAGES[code]
    assert says(page, page.bad), page.bad
    check(lambda: read_programs(page.good, "good.jaxpr"))


@pytest.mark.parametrize("code", PAGES)
def test_a_page_reads_well(code):
    page = PAGES[code]
    assert page.title[0].isupper() and not page.title.endswith(".")
    assert page.mend and not page.mend.endswith(".")
    (text,) = jt.explain(code).pages
    lines = text.lines()
    assert lines[0].startswith(f"{code} (") and len(lines) > 4


def test_the_list_and_the_document():
    listed = invoke("explain").output
    assert all(f"  {code} " in listed for code in PAGES)
    found = json.loads(invoke("explain --json").output)
    assert [row["code"] for row in found["codes"]] == [*PAGES]
    (row,) = json.loads(invoke("explain --json [binder-type]").output)["codes"]
    assert row["says"] and row["example"] and row["mended"] and row["verb"] == "check"


def test_a_code_that_there_is_not():
    done = invoke("explain bindertype")
    assert done.status == 2 and "did you mean binder-type?" in done.error
