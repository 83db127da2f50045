"""The case files: a command line, its input, and what it has to print (tests/cases/README.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jaxprtool.testing.cases import MARK, run_case
from tests.invoke import VERBS

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*/*.jaxpr"))
DISAGREES = re.compile(
    r"(?<![\w.,-])1 (?:arguments|arrays|constants|entries|jaxprs|operands|results|values)\b"
)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path, request: pytest.FixtureRequest) -> None:
    given, expected, printed, status = run_case(path)
    assert status != 3, printed
    if request.config.getoption("--update-cases"):
        path.write_text(given + printed)
        return
    assert not DISAGREES.search(printed), "a number and its noun do not agree"
    assert expected, f"{path} expects nothing; write it with --update-cases and review it"
    assert printed == expected


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_success_and_error_cases(verb: str) -> None:
    kinds = [
        m[1] + (m[2] or "")
        for p in (FOLDER / verb).glob("*.jaxpr")
        if (m := MARK.search(p.read_text()))
    ]
    good = sum(k == "output" for k in kinds)
    assert good, f"tests/cases/{verb} has no case that succeeds"
    assert len(kinds) - good >= good / 2, f"tests/cases/{verb} has too few error cases"


MALFORMED = sorted((FOLDER / "malformed").glob("*.jaxpr"))
_PLACED = re.compile(r"^<stdin>:[1-9]\d*:[1-9]\d*: error: \S.* \[[a-z-]+\]$", re.MULTILINE)


def test_there_are_a_hundred_malformed_texts() -> None:
    assert len(MALFORMED) >= 100


@pytest.mark.parametrize("path", MALFORMED, ids=lambda p: p.stem)
def test_a_malformed_text_has_one_error_at_a_line_and_column(path: Path) -> None:
    """What `--update-cases` writes may not turn a malformed text into one that is accepted, or that has several errors."""
    text = path.read_text()
    m = MARK.search(text)
    assert m, f"{path} expects nothing"
    assert (m[1], m[2]) in (("error", "1"), ("error", "2"))
    assert len(_PLACED.findall(text, m.end())) == 1
    assert text.count(": error: ", m.end()) == 1, "a second error accompanies the one that is there"
