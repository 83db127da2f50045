"""diff of files and folders as the shell shows it: side by side, pages, folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import jaxprtool as jt
from tests.invoke import invoke

A = "{ lambda ; x:f32[3]. let\n    b:f32[3] = sin x\n    c:f32[3] = %s b\n  in (c,) }\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "a.jaxpr").write_text(A % "exp")
    (tmp_path / "b.jaxpr").write_text((A % "log").replace("x", "long_name"))
    return tmp_path


def test_side_by_side(files: Path) -> None:
    done = invoke(["diff", "--side-by-side", "a.jaxpr", "b.jaxpr"])
    summary, *lines = done.output.splitlines()
    assert (done.status, summary) == (1, "1 changed: 1 exp to log")
    assert lines[0].split() == ["a.jaxpr", "b.jaxpr"]
    (changed,) = [line.split() for line in lines if "exp" in line]
    assert changed == ["3", "-", "c:f32[3]", "=", "exp", "b", "3", "+", "c:f32[3]", "=", "log", "b"]
    assert max(map(len, lines)) <= 160 and not any(x.endswith(" ") for x in lines)


@pytest.mark.parametrize("width", [40, 80])
def test_side_by_side_in_a_narrow_terminal(files: Path, monkeypatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = invoke(["diff", "--side-by-side", "a.jaxpr", "b.jaxpr"])
    lines = done.output.splitlines()[1:]
    assert max(map(len, lines)) <= width
    together = "".join(lines).replace(" ", "")
    assert "exp" in together and "log" in together


def test_side_by_side_in_colour(files: Path) -> None:
    painted = invoke(["diff", "--side-by-side", "--color", "always", "a.jaxpr", "b.jaxpr"]).output
    assert "\x1b[31m" in painted and "\x1b[32m" in painted


def test_what_programs_hold_commands_no_terminal(files: Path) -> None:
    text = "{ lambda ; x:f32[3]. let b:f32[3] = jit[name='%s' jaxpr={ lambda ; y:f32[3]. let in (y,) }] x in (b,) }"
    (files / "a.jaxpr").write_text(text % "\\x1b[2Jf")
    (files / "b.jaxpr").write_text(text % "\\x1b[2Jg")
    for how in ([], ["--side-by-side"], ["--html", "-"]):
        done = invoke(["diff", *how, "a.jaxpr", "b.jaxpr"])
        assert done.status == 1 and "\x1b" not in done.output


def test_a_page_is_written(files: Path) -> None:
    done = invoke(["diff", "--html", "page.html", "a.jaxpr", "b.jaxpr"])
    assert (done.status, done.output) == (1, "1 changed: 1 exp to log\n")
    page = (files / "page.html").read_text()
    a, b = (jt.load(files / f"{x}.jaxpr") for x in "ab")
    assert "log b" in page and "log b" in jt.diff(a, b).html()
    same = invoke(["diff", "--html", "same.html", "a.jaxpr", "a.jaxpr"])
    assert (same.status, same.output) == (0, "equal\n")
    assert "<p>equal</p>" in (files / "same.html").read_text()


def test_folders(files: Path) -> None:
    for folder in ("old", "new"):
        (files / folder / "inner").mkdir(parents=True)
        (files / folder / "same.jaxpr").write_text(A % "exp")
        (files / folder / "notes.txt").write_text(folder)
    (files / "new" / "inner" / "new.jaxpr").write_text(A % "exp")
    (files / "old" / "gone.jaxpr").write_text(A % "exp")
    (files / "old" / "other.jaxpr").write_text(A % "exp")
    (files / "new" / "other.jaxpr").write_text(A % "log")
    done = invoke(["diff", "old", "new"])
    assert done.status == 1
    assert [line.split()[:2] for line in done.output.splitlines()] == [
        ["1", "changed,"],
        ["removed", "gone.jaxpr"],
        ["added", "inner/new.jaxpr"],
        ["changed", "other.jaxpr"],
    ]
    told = json.loads(invoke(["diff", "--json", "old", "new"]).output)
    assert [f["kind"] for f in told["files"]] == ["removed", "added", "changed", "equal"]
    assert invoke(["diff", "-q", "old", "new"]).output == ""
    assert invoke(["diff", "--stat", "old", "new"]).output.startswith("1 changed, 1 added")
    invoke(["diff", "--html", "page.html", "old", "new"])
    page = (files / "page.html").read_text()
    assert all(x in page for x in ("gone.jaxpr", "inner/new.jaxpr", "log b"))
    (files / "new" / "other.jaxpr").write_text("{ lambda")
    (files / "old" / "same.jaxpr").write_text("# a comment\n" + A % "exp")
    torn = invoke(["diff", "old", "new"])
    assert torn.status == 2 and "unreadable  other.jaxpr" in torn.output
    assert "Traceback" not in torn.error and "same.jaxpr" not in torn.output


def test_folders_that_are_equal_and_that_hold_nothing(files: Path) -> None:
    (files / "empty").mkdir()
    assert (invoke(["diff", ".", "."]).status, invoke(["diff", ".", "."]).output) == (0, "")
    nothing = invoke(["diff", "empty", "empty"])
    assert nothing.status == 2 and "no .jaxpr files" in nothing.error
    apart = invoke(["diff", "empty", "a.jaxpr"])
    assert apart.status == 2 and "is a folder" in apart.error
