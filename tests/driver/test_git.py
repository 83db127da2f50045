"""git with our drivers, in real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.print import format_file
from tests.analyses.exchanged import exchanges
from tests.invoke import invoke

ROOT = Path(__file__).parents[2]
REAL = sorted([*(ROOT / "examples").glob("*.jaxpr"), *(ROOT / "examples/zoo").glob("*.jaxpr")])
ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
SINE = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n    c:f32[3] = mul b b\n  in (c,) }\n"
RENAMED = "{ lambda ; x:f32[3]. let\n    y:f32[3] = sin x\n    z:f32[3] = mul y y\n  in (z,) }\n"
OTHER = SINE.replace("sin", "cos")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


class Repository:
    """A repository with our drivers."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "n",
            "GIT_AUTHOR_EMAIL": "n@example.org",
            "GIT_COMMITTER_NAME": "n",
            "GIT_COMMITTER_EMAIL": "n@example.org",
        }
        self.git("init", "-q", "-b", "main")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True)

    def git(self, *words: str) -> str:
        done = self.run("git", *words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def jaxprtool(self, *words: str) -> str:
        done = self.run(sys.executable, "-m", "jaxprtool", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.jaxpr").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_from_the_set_up_to_its_undoing(repository):
    (repository.folder / ".gitattributes").write_text("*.bin binary\n")
    repository.commit(p=SINE)
    before = (repository.folder / ".git/config").read_text()
    assert "git config diff.jaxpr.command" in repository.jaxprtool("git-setup")
    repository.jaxprtool("git-setup")
    lines = (repository.folder / ".gitattributes").read_text().splitlines()
    assert lines == ["*.bin binary", "*.jaxpr diff=jaxpr merge=jaxpr"], "once, and beside others"
    (repository.folder / "p.jaxpr").write_text(OTHER)
    shown = repository.git("diff", "p.jaxpr")
    assert shown.startswith("diff --jaxpr a/p.jaxpr b/p.jaxpr\n--- a/p.jaxpr\n")
    assert "remove-section diff.jaxpr" in repository.jaxprtool("git-setup", "--undo")
    assert (repository.folder / ".gitattributes").read_text() == "*.bin binary\n"
    assert (repository.folder / ".git/config").read_text() == before
    assert repository.git("diff").startswith("diff --git ")
    assert repository.jaxprtool("git-setup", "--undo") == "nothing to do\n"


def test_a_file_of_attributes_that_is_empty_goes(repository):
    repository.jaxprtool("git-setup")
    repository.jaxprtool("git-setup", "--undo")
    assert not (repository.folder / ".gitattributes").exists()


def test_diff_is_by_structure(repository):
    repository.jaxprtool("git-setup")
    repository.commit(p=SINE, q=SINE, gone=SINE, broken=SINE)
    (repository.folder / "p.jaxpr").write_text(RENAMED)
    (repository.folder / "q.jaxpr").write_text(OTHER)
    (repository.folder / "gone.jaxpr").unlink()
    (repository.folder / "broken.jaxpr").write_text("{ lambda ;\n")
    output = repository.git("diff")
    found = {part.split()[0]: part for part in output.split("diff --jaxpr a/")[1:]}
    assert "the same program; names, layout or origins differ" in found["p.jaxpr"]
    assert "-    b:f32[3] = sin a\n+    b:f32[3] = cos a\n     c:" in found["q.jaxpr"]
    assert "+++ /dev/null" in found["gone.jaxpr"] and "-{ lambda ; a:f32[3]" in found["gone.jaxpr"]
    assert "+{ lambda ;" in found["broken.jaxpr"]
    repository.git("checkout", "-q", "gone.jaxpr", "broken.jaxpr")
    repository.git("commit", "-q", "-a", "-m", "change")
    shown = repository.git("show")
    assert "let b:f32[3] = sin a;" in shown and "let b:f32[3] = cos a;" in shown, "laid out"


def test_log_of_a_file_that_is_no_jaxpr(repository):
    repository.jaxprtool("git-setup")
    repository.commit(p="<<<<<<< nothing\n")
    repository.commit(p=SINE)
    assert "let b:f32[3] = sin a;" in repository.git("log", "-p")


def test_constants_beside_the_file(repository):
    """An array that only one version has is no reason to say nothing."""
    repository.jaxprtool("git-setup")
    folder = repository.folder
    model = "import numpy as np\nfrom jaxprtool import lax\nN = 1\ndef f(x): return lax.mul(x, np.arange(N, N + 900.0))\n"
    for n in (1, 2):
        (folder / "m.py").write_text(model.replace("N = 1", f"N = {n}"))
        for old in folder.glob("*.npz"):
            old.unlink()
        repository.jaxprtool("trace", "m.py:f", "--shape", "f64[900]", "-o", "p.jaxpr")
        if n == 1:
            repository.commit()
    output = repository.git("diff", "--", "p.jaxpr")
    assert "-where a = npz(" in output.replace("-  ", "-") and "+" in output


def named(**programs: ClosedJaxpr) -> str:
    return format_file(programs, lossless=True) + "\n"


def merged(repository: Repository, base: str, ours: str, theirs: str) -> int:
    """Merge two branches that change one file: the exit status; the file holds what comes of it."""
    repository.jaxprtool("git-setup")
    repository.commit(p=base)
    repository.git("checkout", "-q", "-b", "theirs")
    repository.commit(p=theirs)
    repository.git("checkout", "-q", "main")
    repository.commit(p=ours)
    return repository.run("git", "merge", "-q", "-m", "merge", "theirs").returncode


@pytest.mark.parametrize("path", REAL if ALL else REAL[::5], ids=lambda p: p.stem)
def test_programs_that_one_side_has_changed(path, repository):
    """Whatever the other side did to names and layout."""
    program = jt.load(path)
    others = [e.program for e in exchanges(program, 2)]
    if len(others) < 2:
        others = [jt.jvp_jaxpr(program)[0], jt.discharge(program)]
    base = named(one=program, two=program, three=program)
    ours = named(one=others[0], two=program, three=program)
    theirs = named(three=program, one=program, two=others[1])
    assert merged(repository, base, ours, theirs) == 0
    found = jt.parse_file((repository.folder / "p.jaxpr").read_text())
    wanted = {"one": others[0], "two": others[1], "three": program}
    assert {*found} == {*wanted}
    assert all(jt.diff(found[name], wanted[name]).equal for name in wanted)


def test_names_are_no_conflict(repository):
    assert merged(repository, SINE, RENAMED, OTHER) == 0
    assert (repository.folder / "p.jaxpr").read_text() == OTHER


def test_the_same_change_on_both_sides_is_none(repository):
    assert merged(repository, SINE, OTHER, RENAMED.replace("sin", "cos")) == 0
    assert (repository.folder / "p.jaxpr").read_text() == OTHER


LINES = (
    "{ lambda ; a:f32[3]. let\n"
    + "".join(f"    {y}:f32[3] = sin {x}\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True))
    + "  in (i,) }\n"
)


def test_changes_of_other_lines_are_merged(repository):
    ours, theirs = (LINES.replace(f"sin {x}", f"cos {x}") for x in "bg")
    assert merged(repository, LINES, ours, theirs) == 0
    assert (repository.folder / "p.jaxpr").read_text().count("cos") == 2


def test_what_is_merged_has_to_be_well_typed(repository):
    """Lines that merge, into a program with a variable that nobody binds."""
    ours = LINES.replace("    c:f32[3] = sin b\n", "").replace("sin c", "sin b")
    theirs = LINES.replace("sin g", "mul g c")
    assert merged(repository, LINES, ours, theirs) == 1
    assert "unmerged" in repository.run("git", "status").stdout.lower()


def test_a_conflict_is_marked(repository):
    assert merged(repository, SINE, OTHER, SINE.replace("sin", "tanh")) == 1
    text = (repository.folder / "p.jaxpr").read_text()
    assert "\n<<<<<<< ours\n" in text and "cos" in text and "tanh" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("git-setup diff a.jaxpr", "takes no words"),
        ("git-setup nothing", "takes no words"),
        ("git-setup --undo text a.jaxpr", "takes no words"),
        ("git-setup text nowhere.jaxpr", "cannot read nowhere.jaxpr"),
        ("git-setup", "not a git repository"),
    ],
)
def test_wrong_usage(line, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = invoke(line)
    assert done.status == 2 and message in done.error, done.error
