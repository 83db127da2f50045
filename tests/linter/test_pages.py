"""explain: every code of a message has a page, whose example gives that message and whose mended form is well-typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.driver.explain import says
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.linter.messages import MESSAGES
from jaxprtool.linter.pages import all_pages
from tests.invoke import invoke
from tests.linter.codes import codes

PAGES = {page.code: page for page in all_pages()}
WITH_EXAMPLES = [page.code for page in MESSAGES if page.command == "check"]
EXAMPLES = {page.code: page.example for page in MESSAGES}
# Warnings, after which a verb goes on.
WARNINGS = {
    "ambiguous-draws",
    "ambiguous-result",
    "custom-rule",
    "earlier-words",
    "lost-rule",
    "not-in-style",
    "repeated-option",
    "unknown-name",
}
# What needs another file, another machine or another process is shown by a command alone.
NOT_BY_A_TEXT = """
artifact-damaged artifact-types artifact-version bad-bench bad-domain batching-rule bench-mismatch callback-artifact callback-failed
callback-result check-failed compressed concatenate constant-count constant-type coordinator devices folder
frontend grid-mapping internal interrupted io jax-refuses jax-release jax-run jax-script left-out linear-solve
misfit no-constant no-cost no-index-map no-input no-jax no-numpy-type no-outputs no-profiler no-stablehlo-type
no-such-array no-such-constant no-such-program no-transpose-rule no-zeros nonbatchable nontraceable
not-a-pytree not-an-artifact nothing-common npz-path opaque-param opaque-type operand-type out-of-memory pass
platform plugin-failed processes-differ result-types several-devices sharding snapshot split-type
symbolic-dimensions time-limit too-deep type-rule unsupported-block unsupported-index unsupported-kernel
warning xla-compile xla-run
"""
SHOWN = {code for code, example in EXAMPLES.items() if example.bad.kind == "shown"}
RUN = [code for code, example in EXAMPLES.items() if example.bad.kind == "run"]
PYTHON = [code for code, example in EXAMPLES.items() if example.bad.kind == "python"]
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


_SAID = re.compile(
    r"(?:error|warning|note): .*\[([a-z0-9-]+)\]$|title=([a-z0-9-]+)::", re.MULTILINE
)
# What is said besides: of a tree that is too deep that it does not fit.
BESIDES = {"interface-depth": {"interface-count"}}


def said(side) -> tuple[int, set[str]]:
    """The exit status of a half of an example, and the codes that it says."""
    done = invoke(side.command, side.text)
    return done.status, {"".join(found) for found in _SAID.findall(done.error + done.output)}


@pytest.mark.parametrize(
    "code", [c for c in RUN if c != "more"]
)  # which is printed without its code
def test_the_example_of_a_message(code, tmp_path, monkeypatch):
    """The command says this code of the example and no other, and nothing of the mended one."""
    monkeypatch.chdir(tmp_path)
    bad, good = EXAMPLES[code]
    status, found = said(bad)
    assert found == {code} | BESIDES.get(code, set())
    assert status or code in WARNINGS
    if good.kind == "run":
        assert said(good) == (0, set())


@pytest.mark.parametrize("code", PYTHON)
def test_the_example_of_a_message_in_python(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad, good = EXAMPLES[code]
    with pytest.raises(JaxprToolError) as e:
        exec(bad.text, {"__name__": "example"})
    assert {d.code for d in e.value.diagnostics} == {code}
    exec(good.text, {"__name__": "mended"})


def test_every_page_has_an_example():
    """And what a text on standard input, or a few lines of Python, can show is run by the tests above."""
    assert all(example.bad.command or example.bad.text for example in EXAMPLES.values())
    assert {*EXAMPLES} == {*RUN, *PYTHON, *SHOWN}
    assert not any(EXAMPLES[code].bad.text for code in SHOWN)
    assert {*NOT_BY_A_TEXT.split()} == SHOWN


@pytest.mark.parametrize("code", WITH_EXAMPLES)
def test_a_page_shows_what_is_said_of_its_example(code):
    assert says(PAGES[code])


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
