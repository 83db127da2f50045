"""The plug-in for pytest, in runs of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "jax", "jaxlib", "lark", "rich", "ml_dtypes")


class Run:
    """Runs of pytest in a folder, with the plug-in and no other."""

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)

    def __call__(self, *words: str, ini: str = "") -> tuple[int, str]:
        """Exit status and output."""
        (self.folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "jaxprtool.pytest_plugin", *words],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_ADDOPTS": "",
            },
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_it_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"jaxprtool": "jaxprtool.pytest_plugin"}
    assert not any(d.startswith("pytest") for d in project["dependencies"])


def test_it_imports_nothing_heavy(run):
    """And little of the package."""
    run.write(
        test_light=f"import sys\ndef test():\n    assert not [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    ours = [m for m in sys.modules if m.startswith('jaxprtool')]\n"
        "    assert 'jaxprtool.pytest_plugin' in ours and len(ours) < 8, ours\n"
    )
    status, output = run(ini="jaxpr_cases = cases")
    assert status == 0, output
    run.write(test_light=f"import sys, numpy\ndef test():\n    assert not [m for m in {HEAVY!r} if m in sys.modules]\n")  # fmt: skip
    assert run()[0] == 1, "the check can fail"


MODEL = """
from jaxprtool import lax
import jaxprtool as jt
import pytest

T = jt.ShapedArray((3,), "float32")

def loss(x):
    return lax.mul(lax.sin(x), 2.0)
"""
KEPT = """
from model import *

def test_loss(jaxpr_snapshot):
    jaxpr_snapshot(loss, T)

class TestBoth:
    @pytest.mark.parametrize("f", [loss, lax.cos], ids=["loss", "a/b c"])
    def test_two(self, jaxpr_snapshot, f):
        jaxpr_snapshot(f, T)
        jaxpr_snapshot(lambda x: f(f(x)), T, name="twice")
        jaxpr_snapshot(f, T)
"""


def test_snapshots(run):
    run.write(model=MODEL, test_model=KEPT)
    status, output = run()
    assert status == 1 and output.count("is missing; pytest --update-jaxprs writes it") >= 3
    assert run("--update-jaxprs")[0] == 0
    folder = run.folder / "jaxprs"
    assert {p.stem for p in folder.glob("*")} == {
        "test_model.test_loss",
        *(f"test_model.TestBoth.test_two-{f}{n}" for f in ("loss", "a-b-c") for n in ("", ".twice", ".3")),
    }  # fmt: skip
    assert run()[0] == 0
    kept = folder / "test_model.test_loss.jaxpr"
    text = kept.read_text()
    kept.write_text(text.replace("b:f32[3]", "\n  zz:f32[3]").replace("mul b", "mul zz"))
    assert run()[0] == 0, "names and layout are no change"
    kept.write_text("{ lambda ;\n<<<<<<< HEAD\n")
    status, output = run()
    assert status == 1 and "test_loss.jaxpr:1:" in output and "parse.py" not in output
    assert run("--update-jaxprs", "-k", "test_loss")[0] == 0 and kept.read_text() == text
    run.write(model=MODEL.replace("sin", "tanh"))
    status, output = run()
    assert status == 1 and output.count("FAILED") == 2
    first = "AssertionError: the program differs from jaxprs/test_model.test_loss.jaxpr: different; 1 changed: 1 sin to tanh"
    assert first in output and "E       -    b:f32[3] = sin a" in output
    assert "_next" not in output and "snapshots.py" not in output.split("short test summary")[0]
    run.write(model=MODEL.replace("2.0", "2.000001"))
    assert run()[0] == 1, "by default constants are the same"
    assert run("--update-jaxprs", "-k", "test_loss")[0] == 0
    assert run("-k", "test_loss")[0] == 0


def test_the_folder_and_the_tolerance_are_chosen(run):
    test = "from model import *\ndef test_loss(jaxpr_snapshot):\n    jaxpr_snapshot(loss, T, rtol=1e-3)\n"
    run.write(model=MODEL, test_model=test)
    ini = "jaxpr_directory = kept/here"
    assert run("--update-jaxprs", ini=ini)[0] == 0
    assert [p.name for p in (run.folder / "kept/here").glob("*")] == ["test_model.test_loss.jaxpr"]
    run.write(model=MODEL.replace("2.0", "2.0001"))
    assert run(ini=ini)[0] == 0
    run.write(model=MODEL.replace("2.0", "2.1"))
    assert run(ini=ini)[0] == 1


def test_large_constants_go_with_their_programs(run):
    model = (
        MODEL + "import numpy as np\nloss = lambda x: lax.mul(x, np.arange(900.0, dtype='f4'))\n"
    )
    model = model.replace("(3,)", "(900,)")
    test = "from model import *\ndef test_loss(jaxpr_snapshot):\n    jaxpr_snapshot(loss, T)\n"
    run.write(model=model, test_model=test)
    assert run("--update-jaxprs")[0] == 0 and run()[0] == 0
    before = {p.name for p in (run.folder / "jaxprs").glob("*.npz")}
    run.write(model=model.replace("arange(900.0", "arange(1, 901.0"))
    assert run()[0] == 1 and run("--update-jaxprs")[0] == 0 and run()[0] == 0
    after = {p.name for p in (run.folder / "jaxprs").glob("*.npz")}
    assert len(before) == len(after) == 1 and before != after


def test_a_comparison_of_objects_says_how_programs_differ(run):
    run.write(
        model=MODEL,
        test_model="from model import *\ndef test():\n    assert jt.trace(loss, T) == jt.trace(lax.sin, T)\n",
    )
    status, output = run()
    assert status == 1 and "assert_jaxpr_equal" in output and "-    c:f32[3] = mul b 2.0" in output


CASE = "# run: check -\n{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }\n"


def test_case_files(run):
    cases = run.folder / "cases" / "check"
    cases.mkdir(parents=True)
    (cases / "good.jaxpr").write_text(CASE + "# ---- output\n(f32[3]) -> (f32[3])\n")
    (cases / "plain.jaxpr").write_text("{ lambda ; a:f32[3]. let in (a,) }\n")
    (cases / "where.jaxpr").write_text(
        "# run: check {folder}/absent-file\n# ---- error 2\nerror: cannot read {folder}/absent-file: "
        "no such file or directory [unreadable-file]\n"
    )
    assert run()[0] == 5, "nothing is collected unless the configuration says so"
    ini = "jaxpr_cases = cases"
    status, output = run("-v", ini=ini)
    assert status == 0 and "2 passed" in output, output
    assert run(ini="jaxpr_cases = cases/*/g*.jaxpr")[0] == 0
    (cases / "bad.jaxpr").write_text(CASE + "# ---- output\n(f32[4]) -> (f32[3])\n")
    (cases / "new.jaxpr").write_text(CASE)
    status, output = run("-v", ini=ini)
    assert status == 1 and "2 failed, 2 passed" in output
    for line in ("jaxprtool check -", "-(f32[4]) -> (f32[3])", "+(f32[3]) -> (f32[3])"):
        assert line in output
    assert "the file does not say what is expected" in output and "Traceback" not in output
    assert run("--update-jaxprs", ini=ini)[0] == 0
    assert (cases / "new.jaxpr").read_text() == CASE + "# ---- output\n(f32[3]) -> (f32[3])\n"
    assert run(ini=ini)[0] == 0


def test_this_projects_own_cases_are_such_files(run):
    """The plug-in collects them as the project's own tests do."""
    status, output = run("-c", "pytest.ini", str(ROOT / "tests/cases/check"), ini=f"jaxpr_cases = {ROOT}/tests/cases/check")  # fmt: skip
    assert status == 0 and "passed" in output, output


def test_it_leaves_this_projects_run_alone():
    """With the plug-in loaded, the same tests are collected."""
    words = ["-m", "pytest", "--collect-only", "-q", "tests/test_cases.py", "-k", "hash"]
    runs = [
        subprocess.run(
            [sys.executable, *words, *more],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_ADDOPTS": "",
            },
            capture_output=True,
            text=True,
        )
        for more in ([], ["-p", "jaxprtool.pytest_plugin"])
    ]
    assert runs[0].returncode == 0 and "tests/cases" not in runs[0].stdout.split("::")[0]
    assert [line for line in runs[0].stdout.splitlines() if "::" in line] == [
        line for line in runs[1].stdout.splitlines() if "::" in line
    ]


def test_a_test_of_this_project_runs_in_its_folder_wherever_pytest_is_started():
    words = "-m pytest -q -n 0 -p no:cacheprovider analyses/test_cost.py -k nested_jaxprs"
    done = subprocess.run(
        [sys.executable, *words.split()],
        cwd=ROOT / "tests",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
