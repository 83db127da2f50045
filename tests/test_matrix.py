"""The parts of `tests.matrix`: which Python a release gets, what is read of pytest's words, and the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import matrix
from tests.matrix import NEWEST, Outcome


def test_this_python_is_found():
    assert matrix.minor(sys.executable) == sys.version_info[1]
    assert sys.version_info[1] in matrix.pythons()


def test_what_is_no_python_counts_for_nothing():
    assert matrix.minor("/nowhere/python3") == 0


@pytest.mark.parametrize(
    ("release", "minors", "expected"),
    [
        ("0.8.3", (11, 12), 12),
        ("0.10.2", (11,), 11),
        ("0.11.2", (11,), None),
        ("0.12.0.1", (11, 12, 13), 13),
        (NEWEST, (11, 13), 13),
        ("0.8.3", (99,), None),
    ],
)
def test_the_newest_python_that_fits(release, minors, expected):
    found = matrix.chosen(release, {n: str(n) for n in minors})
    assert found == (None if expected is None else str(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "...\n3 failed, 20 passed, 1 skipped in 1.2s\n",
            {"failed": 3, "passed": 20, "skipped": 1},
        ),
        ("ERROR x\n1 error in 0.1s", {"error": 1}),
        ("20 passed in 1s\nsome warning", {"passed": 20}),
        ("no tests ran", {}),
    ],
)
def test_counts_are_read(text, expected):
    assert matrix.counts(text) == expected


@pytest.mark.parametrize(
    ("outcome", "text", "good"),
    [
        (Outcome({"passed": 3, "skipped": 1}), "3 passed", True),
        (Outcome({"passed": 3, "failed": 2}), "3 passed, 2 failed", False),
        (Outcome({"errors": 1}), "0 passed, 1 failed", False),
        (Outcome(problem="No module named pytest"), "No module named pytest", False),
    ],
)
def test_an_outcome_is_told(outcome, text, good):
    assert (str(outcome), outcome.is_good) == (text, good)


def test_columns_are_aligned():
    rows = {"0.8.3 py3.11": {"a": Outcome({"passed": 1}), "bc": Outcome({"passed": 22})}}
    first, second = matrix.table(rows, ["a", "bc"]).splitlines()
    assert first.index("bc") == second.index("22 passed")


@pytest.mark.parametrize("parts", [matrix.PARTS, matrix.SHORT])
def test_every_part_has_tests(parts):
    for tests in parts.values():
        assert tests and all((matrix.ROOT / Path(t)).exists() for t in tests)


def test_an_environment_that_is_complete_is_used_again(tmp_path, monkeypatch):
    folder = tmp_path / f"jax-0.10.2-py3.{sys.version_info[1]}"
    folder.mkdir()
    (folder / "complete").touch()
    found = matrix.environment("0.10.2", sys.executable, tmp_path)
    assert found == folder / "bin" / "python"


def test_tests_of_another_interpreter_are_counted(tmp_path, monkeypatch):
    (tmp_path / "test_two.py").write_text("def test_a(): pass\n\n\ndef test_b(): assert False\n")
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    found = matrix.outcome(Path(sys.executable), ["test_two.py"])
    assert found.counts == {"passed": 1, "failed": 1}
    assert [line.partition(" - ")[0] for line in found.failed] == ["FAILED test_two.py::test_b"]


def test_without_a_second_python_there_is_nothing_to_do(monkeypatch, capsys):
    monkeypatch.setattr(matrix, "pythons", lambda: {11: sys.executable})
    assert matrix.main(["--short", "--optional"]) == 0
    assert "no second Python" in capsys.readouterr().out


def test_an_environment_that_cannot_be_made_is_a_failure(tmp_path, capsys):
    asked = ["--jax", "0.0.0", "--python", sys.executable, "--cache", str(tmp_path), "--short"]
    found = matrix.chosen("0.0.0", {sys.version_info[1]: sys.executable})
    assert matrix.main(asked) == (0 if found is None else 1)
    assert "0.0.0" in "".join(capsys.readouterr())
